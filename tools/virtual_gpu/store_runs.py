"""Which stores an SM may hand to L2 as one.

L1 holds a warp's store back for a moment; the warp's next store to the same sectors goes along with
it. Measured on an H200 (Nsight Compute, l1tex__m_l1tex2xbar_write_sectors, kernels words.cu of
calibration/mechanisms): complete where a request touches four lines at most, a third less where it
touches more; not at all where a load stands between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from astra_chat.tools.virtual_gpu.flow import BasicBlock, destinations
from astra_chat.tools.virtual_gpu.syntax import Address, Guard, Instruction, Register

ALONE = (0,)
FEW_LINES = 4
"""Stores to so many lines at once go along with each other completely."""
MOST = 16
"""Stores of one run."""
APART = 40
"""Instructions between two of them: ptxas moves stores together, as far as that."""
_WAITS = frozenset("ld ldu atom red bar barrier membar fence cp wmma mma call".split())


def store_runs(blocks: Sequence[BasicBlock]) -> Mapping[int, tuple[int, ...]]:
    """By id() of each store of a run: of the first one, how far behind it each lies, in bytes, with
    itself; of the others, nothing. Stores that are in no run are not there."""
    found: dict[int, tuple[int, ...]] = {}
    for block in blocks:
        for run in _runs(block.body):
            first = _address(run[0]).offset
            found.update({id(store): () for store in run})
            found[id(run[0])] = tuple(_address(store).offset - first for store in run)
    return found


def _runs(body: Sequence[Instruction]) -> Iterator[list[Instruction]]:
    """Of two stores or more."""
    run: list[Instruction] = []
    between = 0
    for instruction in [*body, None]:
        goes_on = instruction is not None and not _ends(instruction, run)
        if instruction is not None and goes_on and not _is_store(instruction):
            between += 1
            continue
        near = run and goes_on and between <= APART and len(run) < MOST
        if instruction is not None and near and _key(instruction) == _key(run[0]):
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


def _address(store: Instruction) -> Address:
    address = store.operands[0]
    assert isinstance(address, Address)
    return address


def _key(store: Instruction) -> tuple[Guard | None, object]:
    base = _address(store).base
    return store.guard, base.name if isinstance(base, Register) else base
