"""Maps blocks of machine code to basic blocks of the PTX.

ptxas says from which line of the PTX an instruction came (-lineinfo). It moves and merges
instructions, so a block's lines vote, and those that it rarely moves have more weight. It unrolls
loops, so a block may do the work of several visits: as many as its lines occur in it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from astra_vgpu.lowering.control_flow import BasicBlock, Branch
from astra_vgpu.lowering.regions import counts_by_constant, is_step
from astra_vgpu.sass.control_flow import MachineBlock
from astra_vgpu.sass.disassembly import MachineInstruction

_FIXED = frozenset("LDG STG LD ST LDS STS ATOMS ATOMG REDG RED ATOM SHFL BAR LDSM LDGSTS".split())
"""Instructions that are not merged with others, nor moved out of loops as a rule."""
_TELLING = _FIXED | frozenset(
    "HMMA IMMA DMMA MUFU FFMA FADD FMUL HFMA2 HADD2 DFMA DADD DMUL F2I I2F F2F FRND FLO POPC BREV "
    "REDUX VOTE MATCH".split()
)
_MOVABLE = frozenset("LDC ULDC MOV S2R CS2R".split())
_MEETING = ("BSSY", "BSYNC")
"""Instructions that stand with a branch that lanes go round, and run whether they do or not."""
_FIXED_VOTES, _TELLING_VOTES, _VOTES, _MOVABLE_VOTES = 6.0, 2.0, 1.0, 0.1


@dataclass(frozen=True)
class PtxBlock:
    """What the mapping needs of a basic block of the PTX."""

    lines: tuple[int, ...]
    """PTX lines of the block's instructions: one that was inlined several times occurs as often."""
    successors: tuple[int, ...]
    counts: bool = False
    """Whether it is a loop of itself that counts by a constant, as those do that ptxas unrolls."""
    counting: frozenset[int] = frozenset()
    """Lines of comparisons and steps: in unrolled code they do not occur once a turn."""
    sources: Mapping[int, str] = field(default_factory=dict, compare=False)
    """The program's own lines that a PTX line comes from (Instruction.own_lines), by PTX line."""


@dataclass(frozen=True)
class Placement:
    block: int | None
    """Number of the basic block of the PTX; None: unknown."""
    copies: int = 1
    """Visits of that block whose work one run of this block does."""
    fixed: frozenset[int] = frozenset()
    """PTX lines of `block` from which instructions here come that are not moved."""
    lines: frozenset[int] = frozenset()
    """PTX lines of `block` from which any instructions here come."""


def ptx_blocks(blocks: Sequence[BasicBlock]) -> tuple[PtxBlock, ...]:
    return tuple(_ptx_block(number, block) for number, block in enumerate(blocks))


def _ptx_block(number: int, block: BasicBlock) -> PtxBlock:
    lines = [i.line for i in block.instructions]
    counts = (
        number in block.successors
        and isinstance(block.end, Branch)
        and counts_by_constant(block, block.end)
    )
    counting = frozenset(i.line for i in block.body if i.family == "setp" or is_step(i))
    sources = {i.line: i.own_lines for i in block.instructions if i.own_lines}
    return PtxBlock(tuple(lines), block.successors, counts, counting, sources)


def place(blocks: Sequence[MachineBlock], ptx: Sequence[PtxBlock]) -> tuple[Placement, ...]:
    """Returns where each block of machine code belongs in the PTX; rare ones are not looked at."""
    placer = _Placer(ptx)
    return tuple(
        Placement(None) if block.rare else placer.place(block.instructions) for block in blocks
    )


class _Placer:
    def __init__(self, ptx: Sequence[PtxBlock]) -> None:
        self._ptx = ptx
        self._homes: dict[int, int] = {}
        self._repeats = Counter(line for block in ptx for line in block.lines)
        for number, block in enumerate(ptx):
            for line in block.lines:
                self._homes.setdefault(line, number)

    def place(self, code: Sequence[MachineInstruction]) -> Placement:
        votes: dict[int, float] = defaultdict(float)
        for instruction in code:
            if instruction.line in self._homes and instruction.name not in _MEETING:
                votes[self._homes[instruction.line]] += _weight(instruction)
        if not votes:
            return Placement(None)
        home = max(votes, key=lambda block: votes[block])
        mine = [i for i in code if self._homes.get(i.line) == home]
        fixed = frozenset(i.line for i in mine if i.name in _FIXED)
        lines = frozenset(i.line for i in mine)
        return Placement(home, self._copies(mine, self._ptx[home]), fixed, lines)

    def _copies(self, code: Sequence[MachineInstruction], block: PtxBlock) -> int:
        """Visits of the PTX block that the code stands for, by how often its lines occur."""
        fixed = Counter(i.line for i in code if i.name in _FIXED)
        if fixed:
            return self._typical(fixed)
        if not block.counts:
            return 1
        telling = _least([i for i in code if i.name in _TELLING])
        for lines in (telling, Counter(i.line for i in code)):
            kept = {line: n for line, n in lines.items() if line not in block.counting}
            if kept:
                return self._typical(kept)
        return 1

    def _typical(self, counts: Mapping[int, int]) -> int:
        """The lower median, over lines, of their count here over that in the PTX; at least 1."""
        ratios = sorted(max(1, n // self._repeats[line]) for line, n in counts.items())
        return ratios[(len(ratios) - 1) // 2]


def _least(code: Sequence[MachineInstruction]) -> dict[int, int]:
    """How often the rarest opcode of each line occurs, by line: a line may become several
    instructions."""
    by_line: dict[int, Counter[str]] = defaultdict(Counter)
    for instruction in code:
        by_line[instruction.line][instruction.name] += 1
    return {line: min(names.values()) for line, names in by_line.items()}


def _weight(instruction: MachineInstruction) -> float:
    name = instruction.name
    if name in _FIXED:
        return _FIXED_VOTES
    if name in _MOVABLE or name.startswith("U"):
        return _MOVABLE_VOTES
    return _TELLING_VOTES if name in _TELLING else _VOTES
