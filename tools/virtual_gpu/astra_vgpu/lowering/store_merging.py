"""Stores that L1 merges before it passes them to L2.

L1 holds a warp's store back for a moment; the warp's next store to the same sectors is merged with
it. A store takes one slot for each four bytes of a lane. Measured on an H200 (Nsight Compute,
l1tex__m_l1tex2xbar_write_sectors, words.cu of the lab's calibration/mechanisms): up to six slots in
a row merge completely; of eight a third is saved; of sixteen nothing, because other warps' stores
come between. A load between two stores also prevents merging.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from astra_vgpu.lowering.control_flow import BasicBlock, destinations
from astra_vgpu.ptx.syntax import Address, Guard, Instruction, Register, type_bits

ALONE = (0,)
FEW_TURNS, MAX_TURNS = 6, 8
"""Slots of a run that merges completely, and most slots of a run, of which a third is saved."""
REACH = 32
"""Bytes from one store to the next beyond which no lane meets its own sector again."""
APART = 40
"""Instructions between two of them: ptxas moves stores together, as far as that."""
_WAITS = frozenset("ld ldu atom red bar barrier membar fence cp wmma mma call".split())


def store_runs(blocks: Sequence[BasicBlock]) -> Mapping[int, tuple[int, ...]]:
    """Returns the runs, by id() of each store in one: for a run's first store, the distance in
    bytes from it to each store of the run, itself included; for the others an empty tuple."""
    runs: dict[int, tuple[int, ...]] = {}
    for block in blocks:
        for run in _runs(block.body):
            if sum(map(_turns, run)) > MAX_TURNS:
                continue
            first = _address(run[0]).offset
            runs.update({id(store): () for store in run})
            runs[id(run[0])] = tuple(_address(store).offset - first for store in run)
    return runs


def _runs(body: Sequence[Instruction]) -> Iterator[list[Instruction]]:
    """Yields the runs of a block's body, each of two stores or more."""
    run: list[Instruction] = []
    between = 0
    for instruction in [*body, None]:
        goes_on = instruction is not None and not _ends(instruction, run)
        if instruction is not None and goes_on and not _is_store(instruction):
            between += 1
            continue
        if instruction is not None and goes_on and between <= APART and _joins(instruction, run):
            run.append(instruction)
        else:
            if len(run) > 1:
                yield run
            run = [instruction] if instruction is not None and _is_store(instruction) else []
        between = 0


def _ends(instruction: Instruction, run: Sequence[Instruction]) -> bool:
    """Whether no store behind it belongs to the run."""
    base = _address(run[0]).base if run else None
    changed = isinstance(base, Register) and base.name in destinations(instruction)
    other = instruction.family == "st" and not _is_store(instruction)
    return changed or ((other or instruction.family in _WAITS) and not _on_chip(instruction))


def _is_store(instruction: Instruction) -> bool:
    plain = instruction.family == "st" and not _on_chip(instruction)
    address = instruction.operands[0] if plain else None
    ordered = {"volatile", "relaxed", "release"}.intersection(instruction.modifiers)
    return isinstance(address, Address) and isinstance(address.base, Register) and not ordered


def _on_chip(instruction: Instruction) -> bool:
    spaces = {m.partition("::")[0] for m in instruction.modifiers}
    return bool(spaces & {"shared", "local", "param", "const"})


def _joins(store: Instruction, run: Sequence[Instruction]) -> bool:
    if not run or _key(store) != _key(run[0]):
        return False
    return abs(_address(store).offset - _address(run[-1]).offset) <= REACH


def _turns(store: Instruction) -> int:
    lanes = {"v2": 2, "v4": 4}
    modifiers = store.modifiers
    words = -(-type_bits(modifiers[-1]) // 32)
    return words * next((lanes[m] for m in modifiers if m in lanes), 1)


def _address(store: Instruction) -> Address:
    address = store.operands[0]
    assert isinstance(address, Address)
    return address


def _key(store: Instruction) -> tuple[Guard | None, object]:
    base = _address(store).base
    return store.guard, base.name if isinstance(base, Register) else base
