"""Counters whose values follow from the kernel by hand."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.numpy_engine.conftest import Bench, at_256

from astra_vgpu.ground.toolkit import Toolkit
from astra_vgpu.ptx.parser import parse
from astra_vgpu.types import Counters, Fault


@pytest.mark.parametrize(("stride", "wavefronts"), [(1, 1), (2, 2), (8, 8), (32, 32), (33, 1)])
def test_bank_conflicts(compiled: Any, stride: int, wavefronts: int) -> None:
    out = np.zeros(32, np.int32)
    report = compiled("machine.cu").launch("bank_conflicts", 1, 32, out, np.int32(stride))
    assert report.counters.shared_requests == 2
    assert report.counters.shared_wavefronts == 2 * wavefronts
    assert list(out) == list(range(32))


def test_scalar_silu_counts(compiled: Any, aligned: Any) -> None:
    """[4, 512] bf16, 128 threads: 4 elements a thread, 64 bytes an access of a warp."""
    raw = aligned(np.zeros((4, 1024), np.int16))
    out = aligned(np.zeros((4, 512), np.int16))
    report = compiled("styles.cu").launch("scalar_bf16", 4, 128, out, raw, np.int32(512))
    counters = report.counters
    warps, rounds = 4 * 4, 4
    assert counters.global_load_requests == warps * rounds * 2
    assert counters.global_load_sectors == warps * rounds * 2 * 2
    assert counters.global_load_bytes == raw.nbytes
    assert counters.unique_load_sectors == raw.nbytes // 32
    assert counters.global_store_requests == warps * rounds
    assert counters.global_store_bytes == out.nbytes
    assert counters.unique_store_sectors == out.nbytes // 32
    assert counters.critical_path_loads == 2 * rounds
    assert counters.dependent_load_rounds == rounds
    assert counters.divergent_branches == 0
    total = counters.warp_instructions.total()
    assert counters.lane_instructions == 32 * total
    assert counters.critical_path_instructions == total // warps
    assert counters.warp_instructions["global"] == warps * rounds * 3
    assert counters.warp_instructions["barrier"] == 0


def test_vector_silu_loads_are_16_bytes_a_lane(compiled: Any, aligned: Any) -> None:
    raw = aligned(np.zeros((2, 4096), np.int16))
    out = aligned(np.zeros((2, 2048), np.int16))
    report = compiled("styles.cu").launch("vector_bf16", 2, 128, out, raw, np.int32(2048))
    counters = report.counters
    assert counters.global_load_sectors == 16 * counters.global_load_requests
    assert counters.global_load_requests == 2 * 4 * 2 * 2
    # Two iterations; the two loads of each are on their way at once.
    assert counters.critical_path_loads == 4 and counters.dependent_load_rounds == 2


def test_misaligned_rows_touch_one_sector_more(compiled: Any, aligned: Any) -> None:
    room = aligned(np.zeros(2048, np.float32))
    raw, out = room[1:1025], room[1032:1544]
    report = compiled("styles.cu").launch("scalar_f32", 1, 512, out, raw, np.int32(512))
    assert report.counters.global_load_sectors == 5 * report.counters.global_load_requests


def pattern(index: str, words: int = 64) -> Counters:
    """Counters of one warp of 32 that loads word number %r1, which `index` makes of lane %r0."""
    bench = Bench(
        parse(
            ".version 9.0\n.target sm_90\n.address_size 64\n"
            ".visible .entry kernel(.param .u64 in)\n{ .reg .b32 %r<9>; .reg .b64 %rd<9>;\n"
            f"mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [in]; {index}\n"
            "mul.wide.u32 %rd1, %r1, 4; add.s64 %rd2, %rd0, %rd1; ld.global.u32 %r2, [%rd2]; ret; }"
        )
    )
    return bench.launch("kernel", 1, 32, at_256(np.zeros(words, np.uint32))).counters


@pytest.mark.parametrize(
    ("index", "sectors"),
    [
        ("mov.u32 %r1, %r0;", 4),
        ("sub.u32 %r1, 31, %r0;", 4),
        ("add.u32 %r1, %r0, 1;", 5),
        ("mul.lo.u32 %r1, %r0, 13; and.b32 %r1, %r1, 31;", 4),
        ("shl.b32 %r1, %r0, 1;", 8),
        ("and.b32 %r1, %r0, 1; shl.b32 %r1, %r1, 4;", 2),
        ("and.b32 %r1, %r0, 3;", 1),
    ],
)
def test_sectors_of_any_order(index: str, sectors: int) -> None:
    counters = pattern(index)
    assert counters.global_load_requests == 1
    assert counters.global_load_sectors == counters.unique_load_sectors == sectors


def stored(body: str, apart: int, **options: Any) -> Counters:
    """Counters of one warp of 32 that stores to %rd2, `apart` bytes from lane to lane."""
    bench = Bench(
        parse(
            ".version 9.0\n.target sm_90\n.address_size 64\n"
            ".visible .entry kernel(.param .u64 out)\n{ .reg .b32 %r<9>; .reg .b64 %rd<9>;\n"
            f"mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r0, {apart};\n"
            f"add.s64 %rd2, %rd0, %rd1; {body} ret; }}"
        )
    )
    return bench.launch("kernel", 1, 32, at_256(np.zeros(1024, np.uint32)), **options).counters


STORES = [f"st.global.u32 [%rd2+{4 * word}], %r0;" for word in range(8)]


@pytest.mark.parametrize(
    ("body", "apart", "packets", "thirds"),
    [
        # A line and its four sectors, filled: 2 + 4; twice, in another line.
        (STORES[0], 4, 6, 18),
        (STORES[0] + "st.global.u32 [%rd2+128], %r0;", 4, 12, 36),
        # Four words a lane: 16 sectors of four lines, filled if they go at once, in any order, also
        # of a few lanes.
        ("".join(STORES[:4]), 16, 4 * 40, 3 * 24),
        (STORES[3] + STORES[0], 16, 80, 3 * 40),
        ("setp.lt.u32 %p1, %r0, 8; @%p1 bra A; ret; A: " + "".join(STORES[:4]), 16, 40, 18),
        # A load stands between; the address changes.
        (STORES[0] + "ld.global.u32 %r1, [%rd0];" + STORES[1], 16, 80, 3 * 80),
        (STORES[0] + "add.s64 %rd2, %rd2, 4;" + STORES[0], 16, 80, 3 * 80),
        # Eight words a lane: a third is spared; of more nothing is.
        ("".join(STORES), 32, 8 * 80, 2 * 8 * 80),
        ("".join(STORES) + STORES[0], 32, 720, 3 * 720),
        ("st.global.v4.u32 [%rd2], {%r0, %r0, %r0, %r0};", 16, 24, 3 * 24),
    ],
)
def test_stores_in_a_row_go_to_l2_together(
    body: str, apart: int, packets: int, thirds: int
) -> None:
    body = body.replace("setp", ".reg .pred %p<2>; setp", 1)
    found = stored(body, apart)
    assert (found.store_packets, found.store_packet_thirds) == (packets, thirds)


@pytest.mark.parametrize(
    ("index", "lines"), [("mov.u32 %r1, %r0;", 1), ("shl.b32 %r1, %r0, 3;", 8)]
)
def test_lines_of_new_sectors(index: str, lines: int) -> None:
    counters = pattern(index + "add.u32 %r0, %r1, 0;", 1024)
    assert counters.block_load_lines == counters.global_load_lines == lines


MATCH = """mov.u32 %r1, 0; LOOP: and.b32 %r2, %r0, {mask};
match.any.sync.b32 %r3, %r2, 0xffffffff; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 3;
@%p1 bra LOOP; st.global.u32 [%rd2], %r3;"""


@pytest.mark.parametrize("mask", [0, 3, 31])
def test_match_takes_a_turn_for_each_value(mask: int) -> None:
    counters = stored(".reg .pred %p<2>;" + MATCH.format(mask=mask), 4)
    assert counters.match_turns == counters.critical_path_match_turns == 3 * (mask + 1)


@pytest.mark.parametrize(
    ("asked", "slept_ns"),
    [
        ("nanosleep.u32 700; nanosleep.u32 300;", 1000),
        ("mov.u32 %r2, %tid.x; nanosleep.u32 %r2;", 31),
        ("mov.u32 %r2, %tid.x; setp.lt.u32 %p1, %r2, 8; @%p1 nanosleep.u32 %r2;", 7),
        ("nanosleep.u32 4000000;", 1_000_000),
        ("mov.u32 %r2, 0;", 0),
    ],
)
def test_a_warp_sleeps_as_long_as_its_last_lane(asked: str, slept_ns: int) -> None:
    counters = stored(f".reg .pred %p<2>; {asked} st.global.u32 [%rd2], %r0;", 4)
    assert counters.critical_path_sleep_ns == slept_ns


@pytest.mark.parametrize(("clock", "least"), [("%clock", 2000), ("%globaltimer_lo", 1000)])
@pytest.mark.parametrize(("sleep", "slept_ns"), [("", 0), ("nanosleep.u32 400;", 400)])
def test_a_wait_for_a_clock_ends_and_takes_its_time(
    clock: str, least: int, sleep: str, slept_ns: int
) -> None:
    """2,000 cycles or 1,000 ns are 1,000 steps, less what was slept."""
    wait = f"""mov.u32 %r1, {clock}; {sleep} LOOP: mov.u32 %r2, {clock}; sub.u32 %r2, %r2, %r1;
    setp.lt.u32 %p1, %r2, {least}; @%p1 bra LOOP; st.global.u32 [%rd2], %r2;"""
    counters = stored(f".reg .pred %p<2>; {wait}", 4)
    steps = 1000 - slept_ns
    assert steps <= counters.critical_path_instructions <= steps + 40
    assert counters.critical_path_sleep_ns == slept_ns


def wait(more: str, condition: str) -> str:
    return f""".reg .pred %p<2>; mov.u64 %rd4, %globaltimer; LOOP: {more}
    mov.u64 %rd5, %globaltimer; sub.u64 %rd5, %rd5, %rd4;
    setp.lt.u64 %p1, {condition}; @%p1 bra LOOP;
    st.global.u32 [%rd2], %r0;"""


@pytest.mark.parametrize("wait_us", [300, 20_000_000])
@pytest.mark.parametrize("more", ["", "nanosleep.u32 50;"])
def test_a_long_wait_for_a_clock_ends_soon_and_costs_its_time(wait_us: int, more: str) -> None:
    """From 10 us on each instruction of such a loop sleeps 1/1024 of the time waited so far."""
    counters = stored(wait(more, f"%rd5, {wait_us * 1000}"), 4)
    assert counters.critical_path_instructions < 30_000
    taken_us = 1e-3 * (counters.critical_path_sleep_ns + counters.critical_path_instructions)
    assert wait_us <= taken_us <= 1.01 * wait_us


def test_a_loop_that_looks_at_memory_takes_its_instructions() -> None:
    counters = stored(wait("ld.global.u32 %r2, [%rd0];", "%rd5, 20000"), 4)
    assert counters.critical_path_instructions >= 20_000 and not counters.critical_path_sleep_ns


@pytest.mark.parametrize(
    "poll",
    [
        "ld.volatile.global.u32 %r2, [%rd2];",
        "ld.acquire.gpu.global.u32 %r2, [%rd2];",
        "ld.volatile.shared.u32 %r2, [flag];",
        "atom.global.add.u32 %r2, [%rd2], 0;",
        "atom.global.cas.b32 %r2, [%rd2], 1, 2;",
    ],
)
def test_a_wait_for_a_value_that_a_clock_ends_is_not_endless(poll: str) -> None:
    """A second: as instructions, more than the budget. One poll of a lock is one turn."""
    until = wait(
        f"{poll} membar.gl; setp.ne.u32 %p1, %r2, 0; @%p1 bra DONE;",
        "%rd5, 1000000000",
    )
    flag = ".shared .b32 flag; st.shared.u32 [flag], 0;"
    counters = stored(flag + until.replace("st.global", "DONE: st.global"), 4)
    assert counters.critical_path_instructions < 60_000, poll
    assert counters.critical_path_sleep_ns > 900_000_000


def test_an_endless_wait_for_a_clock_is_told() -> None:
    with pytest.raises(Fault, match="more than 100000 instructions") as caught:
        stored(wait("", f"%rd5, {2**64 - 1}"), 4, instruction_budget=100_000 * 8192)
    assert caught.value.kind == "timeout"


def test_early_return_lowers_efficiency(compiled: Any) -> None:
    x = np.ones(64, np.float32)
    out = np.zeros(64, np.float32)
    counters = compiled("machine.cu").launch("partial_warp", 1, 64, out, x, np.int32(40)).counters
    assert counters.divergent_branches == 1
    assert counters.lane_instructions < 32 * counters.warp_instructions.total()
    assert counters.global_load_bytes == 40 * 4


def test_counting_can_be_left_out(compiled: Any) -> None:
    x = np.ones(64, np.float32)
    out = np.zeros(64, np.float32)
    bench = compiled("machine.cu")
    report = bench.launch("partial_warp", 1, 64, out, x, np.int32(40), counters=False)
    counted = bench.launch("partial_warp", 1, 64, out, x, np.int32(40)).counters
    assert report.counters == Counters(lane_instructions=counted.lane_instructions)
    assert report.counters.lane_instructions > 0 and out[0] == 32


CONSTANTS = """.version 9.0
.target sm_90
.address_size 64
.const .align 4 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0};
.visible .entry kernel(.param .u64 out) {
.reg .b32 %r<3>; .reg .b64 %rd<5>;
mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 3; mul.wide.u32 %rd0, %r1, 4; mov.u64 %rd1, table;
add.s64 %rd1, %rd1, %rd0; ld.const.u32 %r2, [%rd1];
ld.param.u64 %rd2, [out]; mul.wide.u32 %rd3, %r0, 4; add.s64 %rd2, %rd2, %rd3;
st.global.u32 [%rd2], %r2; ret; }
"""


def test_constants_are_no_traffic_of_global_memory() -> None:
    out = at_256(np.zeros(64, np.uint32))
    counters = Bench(parse(CONSTANTS)).launch("kernel", 1, 64, out).counters
    assert list(out) == [1, 2, 3, 4] * 16
    assert counters.global_load_requests == counters.unique_load_sectors == 0
    assert counters.global_load_bytes == counters.block_load_sectors == 0
    assert counters.global_store_requests == 2 and counters.warp_instructions["global"] == 2


INDEXED = """.version 9.0
.target sm_90
.address_size 64
.const .align 16 .b8 table[1024];
.visible .entry kernel(.param .u64 out, .param .align 16 .b8 each[256]) {{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<5>; .reg .pred %p<3>; .reg .b16 %h<3>;
mov.u32 %r0, %tid.x; ld.param.u64 %rd8, [out]; mov.u64 %rd1, table; mov.b64 %rd2, each;
{} ret; }}
"""
WORD = "mul.wide.u32 %rd0, %r1, 4; add.s64 %rd3, %rd1, %rd0; ld.const.f32 %f1, [%rd3];"


@pytest.mark.parametrize(
    ("body", "requests", "words", "most"),
    [
        ("ld.const.f32 %f1, [table+8];", 0, 0, 0),
        ("and.b32 %r1, %r0, 0;" + WORD, 2, 2, 0),
        ("mov.u32 %r1, %ctaid.x;" + WORD, 2, 2, 0),
        ("and.b32 %r1, %r0, 3;" + WORD, 2, 8, 3),
        ("mov.u32 %r1, %r0;" + WORD, 2, 64, 31),
        ("shl.b32 %r1, %r0, 3; and.b32 %r1, %r1, 255;" + WORD, 2, 64, 31),
        # Different for the two warps, and only some lanes; twice for one of them.
        ("shr.u32 %r1, %r0, 4; setp.lt.u32 %p1, %r0, 48; @!%p1 ret;" + WORD, 2, 3, 1),
        ("shr.u32 %r1, %r0, 3;" + WORD + "setp.lt.u32 %p1, %r0, 32; @!%p1 ret;" + WORD, 3, 12, 6),
        # Bytes of one word are one word; wide accesses count as wide as they are.
        ("cvt.u64.u32 %rd0, %r0; add.s64 %rd3, %rd1, %rd0; ld.const.u8 %h1, [%rd3];", 2, 16, 7),
        (
            "and.b32 %r1, %r0, 31; mul.wide.u32 %rd0, %r1, 8; add.s64 %rd3, %rd1, %rd0;"
            " ld.const.v2.f32 {%f1, %f2}, [%rd3];",
            2,
            64,
            31,
        ),
        # A kernel's parameters are constants too.
        (
            "and.b32 %r1, %r0, 7; mul.wide.u32 %rd0, %r1, 4; add.s64 %rd3, %rd2, %rd0;"
            " ld.param.f32 %f1, [%rd3];",
            2,
            16,
            7,
        ),
    ],
)
def test_a_constant_load_counts_the_different_words_of_a_warp(
    body: str, requests: int, words: int, most: int
) -> None:
    out, each = at_256(np.zeros(64, np.uint32)), struct.pack("<64f", *range(64))
    counters = Bench(parse(INDEXED.format(body))).launch("kernel", 1, 64, out, each).counters
    found = counters.constant_load_requests, counters.constant_load_words
    assert (*found, counters.critical_path_constant_words) == (requests, words, most)


TABLES = """
__constant__ float table[64];
struct Sizes { float of[32]; };
extern "C" __global__ void by_lane(float* out, const __grid_constant__ Sizes sizes) {
  out[threadIdx.x] = table[threadIdx.x & 15] + sizes.of[threadIdx.x & 7];
}
extern "C" __global__ void by_name(float* out, const __grid_constant__ Sizes sizes) {
  out[threadIdx.x] = table[3] + sizes.of[5];
}
"""


def test_tables_that_nvcc_leaves_in_constant_memory_are_counted(
    toolkit: Toolkit, tmp_path: Path
) -> None:
    """Those of __grid_constant__ parameters too; others it copies to local memory."""
    (tmp_path / "k.cu").write_text(TABLES)
    command = [toolkit.nvcc, "-ptx", "-arch=sm_90", "-o", tmp_path / "k.ptx", tmp_path / "k.cu"]
    subprocess.run(list(map(str, command)), check=True)
    bench = Bench(parse((tmp_path / "k.ptx").read_text()))
    out, sizes = at_256(np.zeros(32, np.float32)), struct.pack("<32f", *range(32))
    counters = bench.launch("by_lane", 1, 32, out, sizes).counters
    assert (counters.constant_load_requests, counters.constant_load_words) == (2, 16 + 8)
    assert list(out[:9]) == [0, 1, 2, 3, 4, 5, 6, 7, 0]
    assert bench.launch("by_name", 1, 32, out, sizes).counters.constant_load_requests == 0


def rounds(body: str, loop: int = 1) -> Counters:
    """Counters of one warp of 32 whose %rd2 is the start of `in`, for lane l 1 KiB further each."""
    bench = Bench(
        parse(
            ".version 9.0\n.target sm_90\n.address_size 64\n"
            ".visible .entry kernel(.param .u64 in)\n{ .reg .b32 %r<9>; .reg .b64 %rd<9>;\n"
            ".reg .pred %p<3>; .reg .f32 %f<9>; mov.f32 %f0, 0f00000000; mov.u32 %r3, 0;\n"
            "mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [in]; mul.wide.u32 %rd1, %r0, 1024;\n"
            f"add.s64 %rd2, %rd0, %rd1; L: {body} add.s64 %rd2, %rd2, 4; add.u32 %r3, %r3, 1;\n"
            f"setp.lt.u32 %p1, %r3, {loop}; @%p1 bra L; st.global.f32 [%rd0], %f0; ret; }}"
        )
    )
    return bench.launch("kernel", 1, 32, at_256(np.zeros(32 * 256, np.float32))).counters


LOAD = "ld.global.f32 %f1, [%rd2{}]; add.f32 %f0, %f0, %f1; "


def test_only_the_load_that_brings_a_new_sector_is_waited_for_beyond_l1() -> None:
    """Loads between stores that might alias wait one by one; a sector has eight words."""
    body = "".join(
        LOAD.format(f"+{4 * k}") + f"st.global.f32 [%rd2+{4 * k}], %f0; " for k in range(16)
    )
    counters = rounds(body)
    assert (counters.dependent_load_rounds, counters.fresh_load_rounds) == (16, 2)
    assert counters.global_load_wavefronts == 16 * 32  # 1 KiB apart: one bank
    assert counters.block_load_sectors == 32 * 2 and counters.late_load_sectors == 0


def test_turns_of_an_unrolled_loop_share_a_round_and_its_new_sector() -> None:
    counters = rounds(LOAD.format(""), loop=32)
    assert (counters.dependent_load_rounds, counters.fresh_load_rounds) == (8, 4)


def test_what_is_read_again_after_rounds_of_others_comes_late() -> None:
    def read(*offsets: int) -> int:
        return rounds("bar.sync 0; ".join(LOAD.format(f"+{o}") for o in offsets)).late_load_sectors

    assert read(0, 256, 512, 0) == 32
    assert read(0, 0) == read(0, 256, 512) == 0


def test_what_was_stored_is_in_l1() -> None:
    counters = rounds("st.global.f32 [%rd2], %f0; " + LOAD.format(""))
    assert (counters.dependent_load_rounds, counters.fresh_load_rounds) == (1, 0)
    assert counters.block_load_sectors == 0


def test_local_memory_is_traffic(compiled: Any, aligned: Any) -> None:
    """Words of a warp's lanes lie side by side: a word of all lanes is one line, four sectors, and
    a request, as Nsight Compute counts on an H200."""
    given = aligned(np.random.default_rng(3).integers(0, 1 << 20, 200 * 32).astype(np.int32))
    out = aligned(np.zeros(8 * 64, np.int32))

    def counted(kernel: str, threads: int, times: int) -> Any:
        return compiled("local.cu").launch(kernel, 2, threads, given, out, np.int32(times)).counters

    c = counted("indexed_32", 64, 10)  # filled by 8 stores of 16 bytes
    assert (c.local_store_requests, c.local_store_sectors) == (4 * 32, 4 * 32 * 4)
    assert (c.local_load_requests, c.local_load_sectors) == (4 * 10, 4 * 10 * 4)
    assert c.local_unique_sectors == 4 * 32 * 4
    rows = given.reshape(-1, 32)[:32]
    assert np.array_equal(out[:32], sum(rows[given[i] & 31] for i in range(10)))
    c = counted("by_lane_32", 32, 3)  # a[0], a[t], a[2 * t & 31]
    assert (c.local_load_requests, c.local_load_sectors) == (2 * 3, 2 * (4 + 32 + 32))
    c = counted("bytes_64", 20, 5)  # 20 lanes: three sectors of a word of each
    assert (c.local_store_requests, c.local_store_sectors) == (2 * 16, 2 * 16 * 3)
    assert (c.local_load_requests, c.local_load_sectors) == (2 * 5, 2 * 5 * 3)
    assert c.local_unique_sectors == 2 * 16 * 3
    c = counted("doubles_16", 32, 1)
    assert c.local_load_sectors == 2 * 8 and c.local_store_sectors == 2 * 32 * 4
    c = counted("once_4", 32, 2)
    assert c.local_load_requests == c.local_store_requests == c.local_unique_sectors == 0
