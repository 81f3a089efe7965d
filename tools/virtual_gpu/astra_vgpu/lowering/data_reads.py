"""Which ordered reads fetch data, and look at no flag.

An atomic operation or an acquire load whose result decides nothing, neither through registers nor
through shared memory, reads what others have added up. That needs the order of a plain load.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from astra_vgpu.lowering.control_flow import BasicBlock, Suspend, Switch, destinations, sources
from astra_vgpu.lowering.ordered_accesses import is_ordered
from astra_vgpu.lowering.pointer_reach import ANYWHERE, Origin, is_global, leads_to, origins_of
from astra_vgpu.lowering.unset_registers import FROM_MEMORY
from astra_vgpu.ptx.syntax import Address, Instruction, registers_of


def data_reads(
    blocks: Sequence[BasicBlock], looks: bool, updates: Collection[int]
) -> frozenset[int]:
    """id() of each ordered read of global memory that fetches data; none where nothing is added up.

    looks: ordered_accesses.looks_in_loops; updates: ordered_accesses.unread_updates.
    """
    body = [instruction for block in blocks for instruction in block.body]
    reads = [i for i in body if _reads_in_order(i, looks) and id(i) not in updates]
    if not reads or not updates:
        return frozenset()
    deciding = _deciding(blocks, body)
    return frozenset(id(i) for i in reads if not destinations(i) & deciding)


def _reads_in_order(instruction: Instruction, looks: bool) -> bool:
    if not is_global(instruction):
        return False
    family = instruction.family
    return family == "atom" or (family == "ld" and is_ordered(instruction, looks))


def _deciding(blocks: Sequence[BasicBlock], body: Sequence[Instruction]) -> set[str]:
    """Registers from which a predicate or the target of a branch follows."""
    ends = [block.end for block in blocks]
    met = {n for e in ends if isinstance(e, Suspend) for n in destinations(e.instruction)}
    named = (r for i in body for operand in i.operands[:1] for r in registers_of(operand))
    found = {r.name for r in named if r.type == "pred"} - met
    found |= {n for e in ends if isinstance(e, Switch) for n in sources(e.instruction)}
    origins = origins_of(body, {})
    arrays: set[Origin] = set()
    before = -1
    while len(found) + len(arrays) > before:
        before = len(found) + len(arrays)
        for instruction in reversed(body):
            if instruction.family in ("ld", "st") and not is_global(instruction):
                _through_memory(instruction, found, arrays, origins)
            elif (
                instruction.family not in FROM_MEMORY and (destinations(instruction) - met) & found
            ):
                found |= sources(instruction)
    return found


def _through_memory(
    instruction: Instruction,
    deciding: set[str],
    arrays: set[Origin],
    origins: dict[str, set[Origin]],
) -> None:
    """Follows a value from a load of shared or local memory to the stores into that array."""
    places = leads_to([o for o in instruction.operands if isinstance(o, Address)], origins, {})
    if instruction.family == "ld":
        arrays |= places if destinations(instruction) & deciding else set()
    elif places & arrays or ANYWHERE in arrays or (arrays and ANYWHERE in places):
        deciding |= {r.name for operand in instruction.operands[1:] for r in registers_of(operand)}
