"""What the sanitizer stops, with kind, CUDA error and place; and what it must let pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.numpy_engine.conftest import Bench

from astra_vgpu.ptx.parser import parse
from astra_vgpu.types import Fault


@pytest.fixture(scope="module")
def bench(compiled: Any) -> Any:
    return compiled("bugs.cu")


def fault_of(
    bench: Any, kernel: str, grid: int, block: int, *arguments: Any, **options: Any
) -> Fault:
    with pytest.raises(Fault) as caught:
        bench.launch(kernel, grid, block, *arguments, **options)
    return caught.value


def expect(fault: Fault, kind: str, error: int, *places: str) -> None:
    assert (fault.kind, fault.cuda_error) == (kind, error), str(fault)
    for place in places:
        assert place in str(fault), str(fault)


def test_off_by_one(bench: Any, aligned: Any) -> None:
    out = aligned(np.zeros(1000, np.float32))
    fault = fault_of(bench, "off_by_one", 4, 256, out, np.int32(1000))
    expect(
        fault,
        "out_of_bounds",
        700,
        "bugs.cu:5",
        "block (3, 0, 0), thread (232, 0, 0)",
        "write of 4 bytes",
        "4000 bytes, offset 4000",
        "kernel off_by_one",
        "PTX line",
    )
    assert fault.where.startswith("kernel off_by_one, bugs.cu:5, block")


ARRAYS = """.version 9.0
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 out)
{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<2>;
.shared .align 4 .b8 _ZZ1kPfE5first[64]; .shared .align 4 .b8 _ZZ1kPfE4rest[64];
mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 2; ld.param.u64 %rd0, [out];
mov.u32 %r2, _ZZ1kPfE5first; add.u32 %r2, %r2, %r1;
mov.u32 %r3, _ZZ1kPfE4rest; add.u32 %r3, %r3, %r1;
st.shared.u32 [_ZZ1kPfE5first], 0; st.shared.u32 [_ZZ1kPfE4rest], 0;
"""


@pytest.mark.parametrize(
    ("access", "words"),
    [
        (
            "ld.shared.u32 %r4, [%r2];",
            "read of 4 bytes at shared offset 64, outside the array that"
            " its address was computed from (first, bytes 0 to 63)",
        ),
        (
            "setp.lt.u32 %p1, %r0, 9; @%p1 st.shared.u32 [%r3+-4], %r0;",
            "write of 4 bytes at shared offset 60, outside the array that its address was computed"
            " from (rest, bytes 64 to 127)",
        ),
        (
            "cvt.u64.u32 %rd1, %r2; cvta.shared.u64 %rd2, %rd1; atom.add.u32 %r4, [%rd2], 1;",
            "write of 4 bytes at shared offset 64, outside",
        ),
        (
            "setp.lt.u32 %p1, %r0, 16; selp.b32 %r4, %r2, %r3, %p1; ld.shared.u32 %r5, [%r4];",
            "read of 4 bytes at shared offset 128; 128 bytes are there",
        ),
        (
            "and.b32 %r4, %r1, 63; mov.u32 %r5, _ZZ1kPfE5first; add.u32 %r5, %r5, %r4;"
            " ld.shared.u32 %r6, [%r5];",
            "",
        ),
        ("mov.u32 %r4, 0; add.u32 %r4, %r4, %r1; ld.shared.u32 %r5, [%r4];", ""),
    ],
)
def test_an_access_to_the_next_array(access: str, words: str) -> None:
    """The access is made by 32 threads; an array has room for half of them."""
    bench = Bench(parse(f"{ARRAYS} bar.sync 0; {access} ret; }}"))
    out = np.zeros(1, np.int32)
    if words:
        fault = fault_of(bench, "kernel", 1, 32, out)
        assert fault.kind == "out_of_bounds" and words in str(fault)
    else:
        bench.launch("kernel", 1, 32, out)


BEFORE = """.version 9.0
.target sm_90
.address_size 64
.global .align 16 .b8 known[64]; .const .align 16 .b8 fixed[64];
.visible .entry kernel(.param .u64 out)
{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<2>;
.shared .align 16 .b8 mine[64]; .local .align 16 .b8 own[64];
mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 3; ld.param.u64 %rd0, [out]; mov.u64 %rd1, 0;
"""


@pytest.mark.parametrize(
    ("access", "words"),
    [
        ("ld.shared.u32 %r1, [mine+-4];", "read of 4 bytes at shared offset 18446744073709551612"),
        ("st.u32 [mine+-4], 1;", "write of 4 bytes at shared offset 18446744073709551612"),
        ("atom.shared.add.u32 %r1, [mine+-4], 1;", "at shared offset 18446744073709551612"),
        ("mov.u32 %r1, mine+-4; ld.shared.u32 %r1, [%r1];", "at shared offset 4294967292"),
        ("cp.async.ca.shared.global [mine+-16], [known], 16;", "offset 18446744073709551600"),
        ("ld.local.u32 %r1, [own+-4];", "at local offset 18446744073709551612"),
        ("st.local.u32 [-4], 1;", "at local offset 18446744073709551612"),
        ("ld.global.u32 %r1, [known+-4];", "nearest buffer: known of 64 bytes, offset -4"),
        ("ld.const.u32 %r1, [fixed+-4];", "nearest buffer: fixed of 64 bytes, offset -4"),
        ("ld.global.u32 %r1, [%rd1+-4];", "at address 0xfffffffffffffffc"),
        ("ld.u32 %r1, [%rd1+-4];", "at address 0xfffffffffffffffc"),
        ("st.u32 [%rd1+-4], 1;", "at address 0xfffffffffffffffc"),
        ("atom.add.u32 %r1, [%rd1+-4], 1;", "at address 0xfffffffffffffffc"),
        ("selp.b64 %rd2, %rd0, -4, %p1; ld.u32 %r1, [%rd2];", "thread (3, 0, 0)"),
        ("selp.b64 %rd2, 0, -4, %p1; ld.shared.u32 %r1, [%rd2];", "thread (3, 0, 0)"),
    ],
)
def test_a_constant_address_before_all_memory(access: str, words: str) -> None:
    """A negative address wraps, as the hardware's do: nothing lies there in any space."""
    with pytest.raises(Fault) as caught:
        Bench(parse(f"{BEFORE} {access} ret; }}")).launch("kernel", 1, 32, np.zeros(1, np.int32))
    assert caught.value.kind == "out_of_bounds" and words in str(caught.value)


def test_reading_before_a_buffer(compiled: Any, aligned: Any) -> None:
    room = aligned(np.zeros(64, np.float32))
    out = aligned(np.zeros((1, 8), np.float32))
    with pytest.raises(Fault) as caught:
        compiled("styles.cu").launch("scalar_f32", 2, 32, out, room[:16], np.int32(8))
    assert caught.value.kind == "out_of_bounds" and "block (1, 0, 0)" in caught.value.where


def test_misaligned(bench: Any, aligned: Any) -> None:
    out = aligned(np.zeros(64, np.float32))
    fault = fault_of(bench, "misaligned", 1, 8, out)
    expect(fault, "misaligned", 716, "bugs.cu:8", "write of 16 bytes", "thread (0, 0, 0)")


def test_missing_barrier(bench: Any) -> None:
    x, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    fault = fault_of(bench, "no_barrier", 2, 128, out, x)
    expect(fault, "race", 719, "bugs.cu:13", "warp 0 reads 4 bytes that warp 3 wrote")


def test_one_warp_alone_needs_no_barrier(bench: Any) -> None:
    """Lanes of a warp run in step here; the race check is between warps."""
    x, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    bench.launch("overwritten", 1, 32, out, x)


def test_overwriting_what_others_read(bench: Any) -> None:
    x, out = np.arange(128, dtype=np.float32) + 1, np.zeros(128, np.float32)
    fault = fault_of(bench, "overwritten", 1, 128, out, x)
    expect(fault, "race", 719, "bugs.cu:20", "read since the last barrier")


def test_two_writers(bench: Any) -> None:
    out = np.zeros(64, np.int32)
    expect(fault_of(bench, "two_writers", 1, 64, out), "race", 719, "bugs.cu:24")


def test_writing_the_same_value_is_no_race(bench: Any) -> None:
    out = np.zeros(256, np.int32)
    bench.launch("same_value", 2, 128, out)
    assert (out[:128] == 7).all()


def test_torn_barrier(bench: Any) -> None:
    out = np.zeros(64, np.int32)
    expect(fault_of(bench, "torn_barrier", 1, 64, out), "barrier_divergence", 719, "bugs.cu:35")


def test_whole_warps_at_different_barriers(bench: Any) -> None:
    out = np.zeros(64, np.int32)
    bench.launch("two_barriers", 1, 64, out, np.int32(3))
    assert out[:3].tolist() == [1, 3, 3]


def test_missing_lanes(bench: Any) -> None:
    x, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    expect(
        fault_of(bench, "missing_lanes", 1, 32, out, x), "shuffle_missing_lane", 719, "bugs.cu:50"
    )


def test_shared_overrun(bench: Any) -> None:
    out = np.ones(32, np.int32)
    fault = fault_of(bench, "shared_overrun", 1, 32, out)
    expect(fault, "out_of_bounds", 700, "bugs.cu:55", "shared offset 128; 128 bytes")


def test_null_pointer(bench: Any) -> None:
    out = np.zeros(32, np.int32)
    with pytest.raises(Fault) as caught:
        bench.launch("null_pointer", 1, 32, out, bytes(8))
    expect(caught.value, "out_of_bounds", 700, "bugs.cu:60", "null pointer")


def test_endless_loop(bench: Any) -> None:
    out = np.zeros(1, np.int32)
    fault = fault_of(bench, "endless", 1, 32, out, instruction_budget=10_000 * 8192)
    expect(fault, "timeout", 702, "bugs.cu:63", "more than 10000 instructions")
    out[0] = 1
    bench.launch("endless", 1, 32, out, instruction_budget=10_000 * 8192)


def test_assertion(bench: Any) -> None:
    out = np.zeros(64, np.int32)
    fault = fault_of(bench, "asserts", 1, 64, out, np.int32(40))
    expect(fault, "assert", 710, "`(int)threadIdx.x < n`", "bugs.cu:66", "thread (40, 0, 0)")
    bench.launch("asserts", 1, 64, out, np.int32(64))
    assert (out == 1).all()


def test_trap(bench: Any) -> None:
    out = np.zeros(32, np.int32)
    bench.launch("traps", 1, 32, out)
    out[9] = 3
    expect(fault_of(bench, "traps", 1, 32, out), "trap", 719, "bugs.cu:70", "thread (9, 0, 0)")


@pytest.mark.parametrize("budget", [10_000, 10_001])
@pytest.mark.parametrize("labels", ["$L:", "$L: $M:"])
def test_an_endless_loop_of_nothing(labels: str, budget: int) -> None:
    """It may end in a block that has no instruction, of which there is nothing to be told."""
    text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n"
    module = parse(f"{text}{{ {labels} bra.uni $L; }}")
    fault = fault_of(Bench(module), "k", 1, 32, instruction_budget=budget * 8192)
    expect(fault, "timeout", 702, "PTX line 5: bra.uni $L", f"more than {budget} instructions")
