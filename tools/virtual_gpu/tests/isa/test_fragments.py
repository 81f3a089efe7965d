"""Fragments of wmma, against what ptxas 13.0 makes of them for sm_90 (nvdisasm)."""

from __future__ import annotations

import pytest
from tests.numpy_engine.test_instruction_costs import instructions

from astra_vgpu.isa.fragments import Fragment, transfer, wmma_fragment
from astra_vgpu.isa.matrices import mma_product
from astra_vgpu.ptx.modifiers import Modifiers

USUAL = ((16, 16, 16), (32, 8, 16), (8, 32, 16))
FORMS = [
    (part, shape, form)
    for shape in USUAL
    for part, forms in (("a", "f16 bf16 s8 u8"), ("b", "f16 bf16 s8 u8"), ("c", "f16 f32 s32"))
    for form in forms.split()
] + [
    *(("a", (16, 16, 8), "tf32"), ("b", (16, 16, 8), "tf32"), ("c", (16, 16, 8), "f32")),
    *((part, (8, 8, 4), "f64") for part in "abc"),
]


def fragment(part: str, shape: tuple[int, int, int], form: str) -> Fragment:
    m, n, k = shape
    rows, columns = {"a": (m, k), "b": (k, n), "c": (m, n)}[part]
    return wmma_fragment(form, part, rows, columns)


@pytest.mark.parametrize(("part", "shape", "form"), FORMS)
def test_each_element_is_held_once_and_carried_once(
    part: str, shape: tuple[int, int, int], form: str
) -> None:
    found = fragment(part, shape, form)
    own = [e for lane in found.at for e in lane[: found.different]]
    assert sorted(own) == list(range(found.rows * found.columns))
    assert all(
        lane == lane[: found.different] * (found.elements // found.different) for lane in found.at
    )
    for order in ("row", "col"):
        for shared in (False, True):
            way = transfer(found, part, order, shared=shared)
            places = [p for lane in way.source for p in lane]
            assert len(set(places)) == len(own)
            assert [way.target[p] for p in places] == list(range(len(own)))
            length = found.columns if order == "row" else found.rows
            for access in way.accesses:
                # Nothing reaches beyond its line, and all of it is aligned.
                assert all(at % way.each == 0 and at + way.each <= length for _, at in access.at)


MACHINE_CODE = """
a 16x16x16 f16 row: LDG 4x4, LDS 1x16:32   a 16x16x16 f16 col: LDG 4x4, LDS 1x16:32
a 16x16x16 s8 row: LDG 2x4, LDS 1x16:16    a 16x16x16 s8 col: LDG 8x1, LDS 8x1
b 16x16x16 s8 row: LDG 8x1, LDS 8x1        b 16x16x16 u8 col: LDG 2x4, LDS 1x16:16
a 32x8x16 bf16 row: LDG 8x4, LDS 2x16:32   b 32x8x16 bf16 row: LDG 2x4, LDS 1x16:16
a 8x32x16 f16 col: LDG 2x4, LDS 1x16:16    b 8x32x16 f16 row: LDG 8x4, LDS 2x16:32
a 32x8x16 u8 row: LDG 4x4, LDS 2x16:16     b 32x8x16 s8 col: LDG 1x4, LDS 1x16:8
b 8x32x16 s8 row: LDG 16x1, LDS 16x1       a 8x32x16 s8 row: LDG 1x4, LDS 1x16:8
a 16x16x8 tf32 row: LDG 4x4, LDS 4x4       b 16x16x8 tf32 row: LDG 4x4, LDS 4x4
a 8x8x4 f64 col: LDG 1x8, LDS 1x8          c 8x8x4 f64 row: LDG 1x16, LDS 1x16
c 8x8x4 f64 col: LDG 2x8, LDS 2x8          c 16x16x16 f16 col: LDG 4x4, LDS 4x4
c 16x16x16 f32 row: LDG 4x8, LDS 4x8       c 16x16x16 f32 col: LDG 8x4, LDS 8x4
c 32x8x16 s32 row: LDG 4x8, LDS 4x8        c 32x8x16 s32 col: LDG 8x4, LDS 8x4
c 8x32x16 f32 row: LDG 8x4, LDS 8x4        c 8x32x16 f32 col: LDG 4x8, LDS 4x8
c 8x32x16 f16 row: LDG 4x4, LDS 4x4        c 16x16x8 f32 row: LDG 4x8, LDS 4x8
"""
"""Instructions x bytes of a lane : lanes, if not 32. ldmatrix is an LDS of 8, 16 or 32 lanes."""


ROWS = [row.strip() for row in MACHINE_CODE.replace("   ", "\n").split("\n") if row.strip()]


@pytest.mark.parametrize("row", ROWS)
def test_the_machine_makes_as_many_accesses(row: str) -> None:
    head, code = row.split(": ")
    part, shape, form, order = head.split()
    found = fragment(part, tuple(map(int, shape.split("x"))), form)  # type: ignore[arg-type]
    for text in code.split(", "):
        unit, _, what = text.partition(" ")
        accesses, _, lanes = what.partition(":")
        count, size = map(int, accesses.split("x"))
        way = transfer(found, part, order, shared=unit == "LDS")
        assert len(way.accesses) == count and way.size == size
        assert all(len(a.at) == int(lanes or 32) for a in way.accesses)


def test_a_tile_is_eight_lines_of_16_bytes() -> None:
    """LDG.E [R4]: R4 = base + 4 * (lane / 4 * (stride / 2) + lane % 4), then 16 bytes further, then
    both 8 lines down."""
    way = transfer(fragment("b", (16, 16, 16), "f16"), "b", "col", shared=False)
    first = [a.at[0] for a in way.accesses]
    assert first == [(0, 0), (0, 8), (8, 0), (8, 8)]
    assert way.accesses[0].at == tuple((lane // 4, lane % 4 * 2) for lane in range(32))
    turned = transfer(fragment("a", (16, 16, 16), "f16"), "a", "col", shared=False)
    assert turned.accesses[1].at == tuple((lane // 4, 8 + lane % 4 * 2) for lane in range(32))
    by_matrix = transfer(fragment("a", (16, 16, 16), "f16"), "a", "row", shared=True)
    assert by_matrix.accesses[0].at[8:17] == (*((8 + i, 0) for i in range(8)), (0, 8))


@pytest.mark.parametrize(
    ("form", "k", "sum_form"),
    [("f16", 16, "f32"), ("bf16", 16, "f32"), ("tf32", 8, "f32"), ("s8", 16, "s32")],
)
def test_operands_are_those_of_mma(form: str, k: int, sum_form: str) -> None:
    """The machine knows no other products: a of m16n16 is that of m16n8, b two of m16n8's."""
    text = f"mma.sync.aligned.m16n8k{k}.row.col.{sum_form}.{form}.{form}.{sum_form}"
    (instruction,) = instructions(f"{text} {{%r0}}, {{%r1}}, {{%r2}}, {{%r3}};")
    product = mma_product(Modifiers("kernel", instruction))
    mine = wmma_fragment(form, "a", 16, k)
    assert [lane[: mine.different] for lane in mine.at] == list(product.a.at)
    sums = wmma_fragment(sum_form, "c", 32, 8)
    tall = [tuple(lane[:4]) for lane in sums.at]
    assert tall == list(product.c.at)
    wide = wmma_fragment(form, "b", k, 8)
    assert [lane[: wide.different] for lane in wide.at] == list(product.b.at)
