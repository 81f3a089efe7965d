"""One instruction's modifiers, each consumed exactly once by the engine that translates it.

A modifier that nothing consumes is refused, so one that changes the meaning cannot be overlooked.
"""

from __future__ import annotations

import re
from dataclasses import replace

from astra_vgpu.ptx.syntax import Instruction, Operand, Pair, Sink
from astra_vgpu.types import PtxUnsupported

_TYPES = frozenset(
    "pred b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 u16x2 s16x2 f16 f16x2 bf16 bf16x2 f32 f64"
    " tf32".split()
)


_ONLY_ON_A_GPU = ("wgmma", "tcgen05", "mapa", "getctarank", "setmaxnreg", "multimem", "tensormap")
"""Families that work with clusters, with TMA or across warps in ways nothing here has."""


_CLUSTER_BARRIER = re.compile(
    r"barrier\.cluster\.(arrive(\.(release|relaxed))?|wait(\.acquire)?)(\.aligned)?"
)


def is_cluster_barrier(instruction: Instruction) -> bool:
    """One that a launch without clusters may have: each block is a cluster of its own there."""
    fits = _CLUSTER_BARRIER.fullmatch(instruction.opcode)
    return fits is not None and not instruction.operands


def needs_gpu(instruction: Instruction) -> bool:
    """Is it one of those, a tensor map's copy, or anything else of a cluster?"""
    opcode = instruction.opcode
    return instruction.family in _ONLY_ON_A_GPU or opcode.startswith(
        ("barrier.cluster", "cp.async.bulk.tensor", "fence.proxy.tensormap")
    )


def is_type(modifier: str) -> bool:
    return modifier in _TYPES


class Modifiers:
    """Base of the engines' translators."""

    def __init__(self, kernel: str, instruction: Instruction) -> None:
        self._kernel, self.instruction = kernel, instruction
        self._left = list(instruction.modifiers)

    @property
    def kind(self) -> str:
        """Kind of the last type among the modifiers: int, f32, f64, half, pred or ""."""
        last = self.last_type
        if last in ("f32", "f64", "pred", ""):
            return last
        return "half" if "f16" in last else "int"

    @property
    def last_type(self) -> str:
        """The last type among the modifiers; empty without one."""
        return next((m for m in reversed(self.instruction.modifiers) if is_type(m)), "")

    def refuse(self, what: str) -> PtxUnsupported:
        ins = self.instruction
        source = f", {ins.source}," if ins.source else ""
        return PtxUnsupported(
            f"{what} in '{ins.text}'{source}", kernel=self._kernel, opcode=ins.opcode, line=ins.line
        )

    def done(self) -> None:
        """Refuses the instruction if a modifier is left over."""
        if self._left:
            raise self.refuse(f"modifier .{self._left[0]} here")

    def flag(self, name: str) -> bool:
        if name in self._left:
            self._left.remove(name)
            return True
        return False

    def option(self, *names: str, default: str = "") -> str:
        """The one of `names` that is among the modifiers; refused without if no default."""
        for name in names:
            if self.flag(name):
                return name
        if not default:
            raise self.refuse(f"the form without .{names[0]}")
        return default

    def optional(self, *names: str) -> str:
        """Like `option`; empty if none of them is there."""
        return next((name for name in names if self.flag(name)), "")

    def type(self, *allowed: str) -> str:
        """The first type among the modifiers."""
        type_name = next((m for m in self._left if is_type(m)), None)
        if type_name is None or (allowed and type_name not in allowed):
            raise self.refuse(f"type {type_name}")
        self._left.remove(type_name)
        return type_name

    def ignore(self, *names: str) -> None:
        """Modifiers that concern speed or the memory model only."""
        for name in names:
            self.flag(name)

    def ignore_hints(self) -> None:
        """Cache hints: L1::no_allocate, L2::128B, and L2::cache_hint with its operand."""
        if "L2::cache_hint" in self._left:
            self.instruction = replace(self.instruction, operands=self.operands[:-1])
        self._left = [m for m in self._left if not m.startswith(("L1::", "L2::"))]

    @property
    def operands(self) -> tuple[Operand, ...]:
        return self.instruction.operands

    def operand(self, index: int) -> Operand:
        if index >= len(self.operands):
            raise self.refuse("this number of operands")
        return self.operands[index]

    def count(self, *allowed: int) -> int:
        if len(self.operands) not in allowed:
            raise self.refuse("this number of operands")
        return len(self.operands)

    def pair(self, index: int) -> tuple[Operand, Operand]:
        """Both destinations of d|p; the second is a Sink where there is one only."""
        operand = self.operand(index)
        if isinstance(operand, Pair):
            return operand.first, operand.second
        return operand, Sink()
