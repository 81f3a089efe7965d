"""One instruction that is run here and on a GPU."""

from __future__ import annotations

from dataclasses import dataclass

WIDTHS = {"h": 16, "r": 32, "l": 64}
"""Bits of a register, by the letter of its constraint in inline assembly."""


@dataclass(frozen=True)
class ComparedInstruction:
    name: str
    """The opcode with all modifiers."""
    shape: str
    """Registers: the result's letter, a colon, the sources' letters."""
    domain: str
    """Which inputs: f16, bf16, f32, f64, int, or a form of tensor core operands."""
    result: str = ""
    """Type of the result: f16, bf16, f32, f64, or "" for bits."""
    bound: str = ""
    """Error bound that NVIDIA documents for an approximate instruction; "" for an exact one."""
    text: str = ""
    """Assembly text where it is not the name and its operands: %0 is the result."""
    few: bool = False
    """Whether it runs on few inputs only: exact, and slow on the NumPy engine."""
    accumulator: str = ""
    """Type of C in a matrix product, where it is not the result's."""

    @property
    def approximate(self) -> bool:
        return bool(self.bound)

    @property
    def is_matrix(self) -> bool:
        return self.name.startswith(("mma", "wmma.mma"))

    @property
    def sources(self) -> str:
        return self.shape.partition(":")[2]
