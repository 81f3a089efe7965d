"""Which basic block of the PTX each block of machine code does the work of.

ptxas says from which line of the PTX an instruction came (-lineinfo). It moves and merges
instructions, so a block's lines vote, those that it can not move far with more weight; and it
unrolls loops, so a block may do the work of several visits: as many as lines occur in it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from astra_chat.tools.virtual_gpu.flow import BasicBlock
from astra_chat.tools.virtual_gpu.machine.disassembly import MachineInstruction
from astra_chat.tools.virtual_gpu.machine.flow import MachineBlock

_FIXED = frozenset("LDG STG LD ST LDS STS ATOMS ATOMG REDG RED ATOM SHFL BAR LDSM LDGSTS".split())
"""Not merged with others, not moved out of loops as a rule."""
_TELLING = _FIXED | frozenset(
    "HMMA IMMA MUFU FFMA FADD FMUL HFMA2 HADD2 VOTE MATCH POPC DFMA".split()
)
_MOVABLE = frozenset("LDC ULDC MOV S2R CS2R".split())
_FIXED_VOTES, _TELLING_VOTES, _VOTES, _MOVABLE_VOTES = 6.0, 2.0, 1.0, 0.1


@dataclass(frozen=True)
class PtxBlock:
    """What the mapping needs of a basic block of the PTX."""

    lines: tuple[int, ...]
    successors: tuple[int, ...]


@dataclass(frozen=True)
class Placement:
    block: int | None
    """Of the PTX; None: no instruction tells."""
    copies: int = 1
    """Visits of that block whose work one run of this block does."""
    fixed: frozenset[int] = frozenset()
    """Lines of that block that instructions here come from which are not moved; and of all."""
    lines: frozenset[int] = frozenset()


def ptx_blocks(blocks: Sequence[BasicBlock]) -> tuple[PtxBlock, ...]:
    return tuple(PtxBlock(tuple(_lines(block)), block.successors) for block in blocks)


def _lines(block: BasicBlock) -> list[int]:
    end = getattr(block.end, "instruction", None)
    return [i.line for i in (*block.body, *([end] if end is not None else []))]


def place(blocks: Sequence[MachineBlock], ptx: Sequence[PtxBlock]) -> tuple[Placement, ...]:
    """Of each block of machine code; rare ones are not looked at."""
    homes: dict[int, int] = {}
    for number, block in enumerate(ptx):
        for line in block.lines:
            homes.setdefault(line, number)
    return tuple(
        Placement(None) if block.rare else _place(block.instructions, homes) for block in blocks
    )


def _place(code: Sequence[MachineInstruction], homes: Mapping[int, int]) -> Placement:
    votes: dict[int, float] = defaultdict(float)
    for instruction in code:
        if instruction.line in homes:
            votes[homes[instruction.line]] += _weight(instruction)
    if not votes:
        return Placement(None)
    home = max(votes, key=lambda block: votes[block])
    mine = [i for i in code if homes.get(i.line) == home]
    fixed = [i.line for i in mine if i.name in _FIXED]
    telling = [i.line for i in mine if i.name in _TELLING]
    return Placement(
        home, _copies(fixed or telling or [i.line for i in mine]), frozenset(fixed),
        frozenset(i.line for i in mine),
    )  # fmt: skip


def _copies(lines: Sequence[int]) -> int:
    """How often a line occurs: the lower median."""
    counts = sorted(Counter(lines).values())
    return counts[(len(counts) - 1) // 2]


def _weight(instruction: MachineInstruction) -> float:
    name = instruction.name
    if name in _FIXED:
        return _FIXED_VOTES
    if name in _MOVABLE or name.startswith("U"):
        return _MOVABLE_VOTES
    return _TELLING_VOTES if name in _TELLING else _VOTES
