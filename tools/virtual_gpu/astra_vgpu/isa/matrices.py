"""Tensor-core instructions (mma, wmma, ldmatrix): formats, shapes, fragment layouts, numerics.

Fragments of mma are laid out as the PTX ISA says. Those of wmma, which PTX leaves open, are laid
out as on an H200 (fragments.py).

Numerics, as observed on an H200 (lab/virtual_gpu/numerics, bit for bit): products are exact. Those
of all k and the accumulator are aligned to the largest exponent (a product's exponent is the sum of
its factors') and truncated to FRACTION_BITS below it. The rest is added exactly. The sum is
truncated to float32, or rounded to nearest even as f16. Other GPUs truncate differently. wmma does
the same; its tf32 products add four of k, truncate, and add the other four; halves that are added
to float32 are truncated to that first. Doubles are added product by product in the order of k, each
step rounded once. Integers wrap at 32 bits, or clamp with .satfinite. NaNs are canonical.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from astra_vgpu.isa.fragments import (
    BITS,
    Fragment,
    Transfer,
    transfer,
    wmma_fragment,
)
from astra_vgpu.ptx.modifiers import Modifiers
from astra_vgpu.ptx.syntax import Operand, Vector

FRACTION_BITS = 25
MIN_EXPONENT = {"f16": -14, "bf16": -126, "tf32": -126, "f32": -126}
"""Subnormal numbers are aligned by it too."""
_INPUTS = ("f16", "bf16", "tf32", "s8", "u8", "f64")
_SUMS = ("f16", "f32", "s32", "f64")
_MMA_SHAPES = {
    "f16": ((16, 8, 8), (16, 8, 16)),
    "bf16": ((16, 8, 8), (16, 8, 16)),
    "tf32": ((16, 8, 4), (16, 8, 8)),
    "int": ((16, 8, 16), (16, 8, 32)),
    "f64": ((8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)),
}
_WMMA_SHAPES = {"tf32": ((16, 16, 8),), "f64": ((8, 8, 4),)}
_WMMA_USUAL = ((16, 16, 16), (32, 8, 16), (8, 32, 16))
_WARP = 32


@dataclass(frozen=True)
class Product:
    """D = A * B + C."""

    a: Fragment
    b: Fragment
    c: Fragment
    d: Fragment
    saturates: bool
    step: int = 0
    """Elements of k that are added at once, where not all are."""

    @property
    def is_integer(self) -> bool:
        return self.d.format == "s32"

    @property
    def steps(self) -> tuple[slice, ...]:
        """Slices of k that are added one after the other; the sum is rounded after each."""
        k = self.a.columns
        step = self.step or k
        return tuple(slice(at, at + step) for at in range(0, k, step))

    @property
    def is_narrowed(self) -> bool:
        """Whether a float32 sum, cut, becomes a half, to nearest even."""
        return (self.d.format, self.c.format) == ("f16", "f32")


def mma_product(code: Modifiers) -> Product:
    """Takes the modifiers of mma.sync. Raises PtxUnsupported."""
    code.option("sync")
    code.option("aligned")
    code.option("row")
    code.option("col")
    d, a, b, c = _formats(code, 4)
    m, n, k = _shape(code, _MMA_SHAPES[_family(code, a, b)])
    if d != c or d not in _ACCUMULATORS[_family(code, a, b)]:
        raise code.refuse("this accumulator")
    accumulator = tuple(
        tuple((lane // 4 + i // 2 * 8) * n + lane % 4 * 2 + i % 2 for i in range(m * n // _WARP))
        for lane in range(_WARP)
    )
    if d == "f64":
        code.flag("rn")
    return Product(
        Fragment(a, m, k, _mma_a(m, k, BITS[a])),
        Fragment(b, k, n, _mma_b(k, n, BITS[b])),
        Fragment(c, m, n, accumulator),
        Fragment(d, m, n, accumulator),
        code.flag("satfinite") if d == "s32" else False,
    )


_ACCUMULATORS = {
    "f16": ("f16", "f32"),
    "bf16": ("f32",),
    "tf32": ("f32",),
    "int": ("s32",),
    "f64": ("f64",),
}


def _family(code: Modifiers, a: str, b: str) -> str:
    if a in ("s8", "u8") and b in ("s8", "u8"):
        return "int"
    if a != b or a not in _ACCUMULATORS:
        raise code.refuse("this pair of formats")
    return a


def _mma_a(m: int, k: int, bits: int) -> tuple[tuple[int, ...], ...]:
    """Register r holds elements of row lane / 4 + 8 * (r odd)."""
    each = max(32 // bits, 1)
    return tuple(
        tuple(
            (lane // 4 + r % 2 * 8) * k + r // 2 * 4 * each + lane % 4 * each + j
            for r in range(m * k // _WARP // each)
            for j in range(each)
        )
        for lane in range(_WARP)
    )


def _mma_b(k: int, n: int, bits: int) -> tuple[tuple[int, ...], ...]:
    each = max(32 // bits, 1)
    return tuple(
        tuple(
            (r * 4 * each + lane % 4 * each + j) * n + lane // 4
            for r in range(k * n // _WARP // each)
            for j in range(each)
        )
        for lane in range(_WARP)
    )


def wmma_product(code: Modifiers) -> Product:
    """Takes the modifiers of wmma.mma; with f16 only D and C are named. Raises PtxUnsupported."""
    code.option("sync")
    code.option("aligned")
    for _ in ("a", "b"):
        code.option("row", "col")
    named = _formats(code, 2, 4)
    d, a, b, c = named if len(named) == 4 else (named[0], "f16", "f16", named[1])
    family = _family(code, a, b)
    m, n, k = _shape(code, _WMMA_SHAPES.get(family, _WMMA_USUAL))
    if d not in _ACCUMULATORS[family] or c not in _ACCUMULATORS[family]:
        raise code.refuse("this accumulator")
    if d == "f64":
        code.flag("rn")
    return Product(
        wmma_fragment(a, "a", m, k),
        wmma_fragment(b, "b", k, n),
        wmma_fragment(c, "c", m, n),
        wmma_fragment(d, "d", m, n),
        code.flag("satfinite") if d == "s32" else False,
        4 if a == "tf32" else 0,
    )


def wmma_transfer(code: Modifiers, space: str) -> tuple[Transfer, int]:
    """Takes the modifiers of wmma.load and wmma.store but the space: the transfer, and the usual
    distance of lines in elements."""
    part = code.option("a", "b", "c", "d")
    code.option("sync")
    code.option("aligned")
    order = code.option("row", "col")
    (form,) = _formats(code, 1)
    m, n, k = _shape(code, _WMMA_SHAPES.get(form, (*_WMMA_USUAL, (16, 16, 8))))
    rows, columns = {"a": (m, k), "b": (k, n)}.get(part, (m, n))
    if form not in (_INPUTS if part in "ab" else _SUMS):
        raise code.refuse("this format")
    result = transfer(
        wmma_fragment(form, part, rows, columns), part, order, shared=space == "shared"
    )
    return result, columns if order == "row" else rows


def _formats(code: Modifiers, *counts: int) -> list[str]:
    formats = [m for m in code.instruction.modifiers if m in BITS]
    if len(formats) not in counts:
        raise code.refuse("this number of formats")
    for each in formats:
        code.flag(each)
    return formats


def _shape(code: Modifiers, allowed: Sequence[tuple[int, int, int]]) -> tuple[int, int, int]:
    names = {f"m{m}n{n}k{k}": (m, n, k) for m, n, k in allowed}
    return names[code.option(*names)]


def parts(code: Modifiers, operand: Operand, fragment: Fragment) -> tuple[Operand, ...]:
    """The registers of a fragment."""
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != fragment.registers:
        raise code.refuse("this number of registers")
    return items


def matrix_count(code: Modifiers) -> tuple[int, bool]:
    """Takes the modifiers of ldmatrix and stmatrix but the space: matrices of 8x8, transposed?"""
    code.option("sync")
    code.option("aligned")
    code.option("m8n8")
    count = int(code.option("x1", "x2", "x4")[1])
    code.option("b16")
    return count, code.flag("trans")
