from __future__ import annotations

import pytest

from astra_chat.tools.virtual_gpu.flow import BasicBlock
from astra_chat.tools.virtual_gpu.numpy_engine.costs import CYCLES, Stretch, chain, slots
from astra_chat.tools.virtual_gpu.numpy_engine.mix import class_of
from tests.tools.virtual_gpu.numpy_engine.test_mix import instructions


def cost(text: str) -> tuple[int, int]:
    """(slots in tenths, cycles of the longest chain)."""
    block = BasicBlock(body=list(instructions(text)))
    body = [(i, class_of(i)) for i in block.body]
    return slots(body, block), chain([Stretch(tuple(body), conditional=False)], block)


def test_a_chain_takes_longer_than_the_same_work_side_by_side() -> None:
    chain = "fma.rn.f32 %r1, %r0, %r0, %r0; fma.rn.f32 %r2, %r1, %r1, %r1;"
    apart = "fma.rn.f32 %r1, %r0, %r0, %r0; fma.rn.f32 %r2, %r0, %r0, %r0;"
    assert cost(chain)[1] - cost(apart)[1] == CYCLES["float"]
    assert cost(chain)[0] == cost(apart)[0]


@pytest.mark.parametrize(
    ("cheap", "dear"),
    [
        ("mov.b32 %r1, %r0;", "add.s32 %r1, %r0, %r0;"),
        ("add.s32 %r1, %r0, %r0;", "add.s64 %rd1, %rd0, %rd0;"),
        ("mul.f32 %r1, %r0, %r0;", "div.rn.f32 %r1, %r0, %r0;"),
        ("div.full.f32 %r1, %r0, %r0;", "div.rn.f32 %r1, %r0, %r0;"),
        ("div.u32 %r1, %r0, %r0;", "div.u64 %rd1, %rd0, %rd0;"),
        ("ex2.approx.ftz.f32 %r1, %r0;", "ex2.approx.f32 %r1, %r0;"),
    ],
)
def test_what_expands_takes_more_slots(cheap: str, dear: str) -> None:
    assert cost(cheap)[0] < cost(dear)[0]
