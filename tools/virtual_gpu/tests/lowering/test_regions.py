"""What ptxas makes of short branches and small loops, as its machine code showed."""

from __future__ import annotations

import pytest

from astra_vgpu.lowering.regions import Region, find_regions
from astra_vgpu.numpy_engine.block_costs import block_costs
from astra_vgpu.numpy_engine.program import prepare
from astra_vgpu.ptx.parser import parse

HEAD = """.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in)
{ .reg .pred %p<9>; .reg .b32 %r<99>; .reg .f32 %f<99>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [in]; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 5; setp.lt.u32 %p2, %r1, 9;
"""


def regions(body: str) -> tuple[list[Region], int]:
    """Regions, and rounds of loads of the longest way through all of them."""
    module = parse(HEAD + body + "st.global.f32 [%rd1], %f1; ret; }")
    blocks = prepare(module, module.kernels["k"], cooperative=False).blocks
    mixes = block_costs(blocks)
    found = find_regions(blocks)
    assert sorted(n for region in found for n in region.blocks) == list(range(len(blocks)))
    assert [i for i, mix in enumerate(mixes) if mix.head] == sorted(r.blocks[0] for r in found)
    return found, sum(mix.rounds for mix in mixes)


EDGES = """mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000;
@%p1 bra A; ld.global.f32 %f1, [%rd1]; A: @%p2 bra B; ld.global.f32 %f2, [%rd1+64];
B: add.f32 %f1, %f1, %f2; """


def test_loads_behind_short_branches_wait_together() -> None:
    found, rounds = regions(EDGES)
    assert len(found) == 1 and len(found[0].conditional) == 2 and rounds == 1


def test_a_load_that_decides_is_waited_for_first() -> None:
    _, rounds = regions(
        "ld.global.u32 %r2, [%rd1]; setp.eq.u32 %p3, %r2, 0; @%p3 bra A;"
        "cvt.u64.u32 %rd2, %r2; add.s64 %rd3, %rd1, %rd2; ld.global.f32 %f1, [%rd3]; A: "
    )
    assert rounds == 2


@pytest.mark.parametrize(
    "long_or_not_movable",
    [
        "add.u32 %r3, %r1, 1; " * 20,
        "bar.sync 0; ",
        "atom.global.add.u32 %r3, [%rd1], 1; ",
        "ld.global.u64 %rd2, [%rd1]; ld.global.f32 %f1, [%rd2]; ",
    ],
)
def test_other_branches_stay(long_or_not_movable: str) -> None:
    found, _ = regions(f"@%p1 bra A; {long_or_not_movable} A: ")
    assert not any(region.conditional for region in found)


def loop(body: str, *, before: str = "", step: str = "add.u32 %r5, %r5, 4;") -> str:
    return (
        f"mov.u32 %r5, 0; mov.f32 %f1, 0f00000000; mov.u64 %rd2, %rd1; L: {before} {body}"
        f"add.s64 %rd2, %rd2, 16; {step} setp.lt.u32 %p3, %r5, %r1; @%p3 bra L; "
    )


FOUR = "".join(
    f"ld.global.f32 %f{k}, [%rd2+{4 * k}]; add.f32 %f1, %f1, %f{k}; " for k in range(2, 6)
)


def test_a_small_loop_is_unrolled_and_its_turns_share_a_wait() -> None:
    found, rounds = regions(loop(FOUR))
    assert [region.unrolled for region in found if region.unrolled > 1] == [4]
    assert rounds == 1


@pytest.mark.parametrize(
    "text",
    [
        loop(FOUR, before='.pragma "nounroll";'),
        loop(FOUR, step="add.u32 %r5, %r5, %r1;"),
        loop(FOUR * 3),
        loop(FOUR + "st.global.f32 [%rd2], %f1; "),
        loop(FOUR + "ex2.approx.f32 %f1, %f1; " * 10),
    ],
    ids=["forbidden", "unknown step", "many loads", "stores", "large"],
)
def test_other_loops_stay(text: str) -> None:
    found, rounds = regions(text)
    assert all(region.unrolled == 1 for region in found) and rounds >= 1


def test_a_chase_waits_each_turn_however_unrolled() -> None:
    _, rounds = regions(loop("ld.global.u64 %rd2, [%rd2]; "))
    assert rounds == 4
