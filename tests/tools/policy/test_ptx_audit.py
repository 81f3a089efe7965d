"""PTX read for what rounds, what stays in the cache and what the driver tells a kernel."""

from __future__ import annotations

import pytest

from astra_chat.tools.policy.ptx_audit import (
    float_sum_by_atomics,
    has_atomics,
    kept_in_l2,
    kernels_with_global_atomics,
    refused_registers,
    tensor_or_low_precision,
    tf32,
    waiting_kernels,
)


def test_kernels_that_wait() -> None:
    waits = ".visible .entry a() { griddepcontrol.wait; ret; } "
    hasty = ".visible .entry b() { // griddepcontrol.wait;\n ret; } "
    assert waiting_kernels(waits + hasty) == {"a"}
    assert waiting_kernels(hasty + ".func f() { griddepcontrol.wait; ret; }") == {"b"}


@pytest.mark.parametrize(
    ("body", "atomic", "adds"),
    [
        ("atom.global.add.f32 %f1, [%rd1], %f2;", True, True),
        ("red.relaxed.gpu.global.add.u32 [%rd1], 1;", True, True),
        ("atom.add.f32 %f1, [%rd1], %f2;", True, True),
        ("{ $L: @%p1 atom.add.f32 %f1, [%rd1], %f2; }", True, True),
        (
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r1], %r2;",
            True,
            True,
        ),
        ("atom.shared.add.u32 %r1, [%r2], 1;", True, False),
        ("atom.acq_rel.cta.shared::cta.cas.b32 %r1, [%r2], 1, 2;", True, False),
        ("bar.red.popc.u32 %r1, 0, %p1;", False, False),
        ("mov.b32 %r1, %atom; // atom.global.add", False, False),
    ],
)
def test_kernels_with_atomics(body: str, atomic: bool, adds: bool) -> None:
    ptx = f".visible .entry a() {{ {body} ret; }} .visible .entry b() {{ ret; }}"
    assert kernels_with_global_atomics(ptx) == ({"a"} if adds else set())
    assert has_atomics(ptx) == atomic


@pytest.mark.parametrize(
    ("body", "adds"),
    [
        ("atom.shared.add.f32 %f1, [%r1], %f2;", True),
        ("@%p1 red.global.add.noftz.bf16x2 [%rd1], %r2;", True),
        ("atom.global.v2.f32.add %f1, [%rd1], %f2;", True),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r1], %r2;", True),
        ("atom.shared.add.u32 %r1, [%r2], 1;", False),
        ("red.global.max.f32 [%rd1], %f2;", False),
        ("add.f32 %f1, %f1, %f2;", False),
    ],
)
def test_floats_that_are_added_by_atomics(body: str, adds: bool) -> None:
    assert (float_sum_by_atomics(f".visible .entry a() {{ {body} ret; }}") is not None) == adds


def test_precision() -> None:
    assert tf32("wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32 {%f1}, {%r1};")
    assert tf32("cvt.rna.tf32.f32 %r1, %f1;") == "cvt.rna.tf32.f32"
    assert tf32("// cvt.rna.tf32.f32 %r1, %f1;\nfma.rn.f32 %f1, %f2, %f3, %f4;") is None
    for low in (
        "cvt.rn.f16.f32 %rs1, %f1;",
        "fma.rn.bf16x2 %r1, %r2, %r3, %r4;",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1};",
        "cvt.rn.satfinite.e4m3x2.f32 %rs1, %f1, %f2;",
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r1};",
    ):
        assert tensor_or_low_precision(low), low
    for high in (
        "fma.rn.f32 %f1, %f2, %f3, %f4; ld.global.b16 %rs1, [%rd1];",
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd1, %fd2}, {%fd3}, {%fd4}, {%fd5};",
        "wmma.mma.sync.aligned.row.col.m8n8k4.rn.f64.f64.f64.f64 {%fd1, %fd2}, {%fd3}, {%fd4};",
    ):
        assert tensor_or_low_precision(high) is None, high


def test_cache_policy() -> None:
    assert kept_in_l2("createpolicy.fractional.L2::evict_last.b64 %rd1, 1.0;")
    assert kept_in_l2("ld.global.L2::evict_last.f32 %f1, [%rd1];")
    assert kept_in_l2("ld.global.L1::evict_last.L2::evict_last.f32 %f1, [%rd1];")
    assert kept_in_l2("ld.global.L1::no_allocate.L2::evict_first.f32 %f1, [%rd1];") is None
    assert kept_in_l2("ld.global.nc.L1::evict_last.f32 %f1, [%rd1];") is None


@pytest.mark.parametrize("register", ["%gridid", "%current_graph_exec", "%nsmid", "%envreg7"])
def test_what_the_driver_tells_a_kernel_is_found(register: str) -> None:
    assert refused_registers(f"mov.u64 %rd1, {register};", grid_sync=True) == [(register, 1)]
    assert refused_registers(f"// {register}\nmov.u64 {register}s, 1;", grid_sync=False) == []


@pytest.mark.parametrize("register", ["%ctaid.x", "%laneid", "%nclusterid.x", "%dynamic_smem_size"])
def test_what_kernels_ask_for_is_left(register: str) -> None:
    assert refused_registers(f"mov.u32 %r1, {register};", grid_sync=False) == []


SYNC = """
.visible .entry k() {{
.loc {file} 76 1, function_name $L__info_string0, inlined_at 1 12 3
mov.u32 %r1, %envreg{number};
ret; }}
.file 1 "/build/kernel.cu"
.file 2 "/usr/include/cooperative_groups/details/driver_abi.h"
"""


@pytest.mark.parametrize("file", [1, 2])
def test_the_grids_barrier_is_for_grid_sync_and_no_file_says_so(file: int) -> None:
    ptx = SYNC.format(file=file, number=2)
    assert refused_registers(ptx, grid_sync=True) == []
    assert refused_registers(ptx, grid_sync=False) == [("%envreg2", 76 if file == 1 else 12)]
    other = SYNC.format(file=file, number=3)
    assert refused_registers(other, grid_sync=True) == [("%envreg3", 76 if file == 1 else 12)]


NUMBERS = {
    "evict_last": (0x14F0000000000000, False),
    "evict_last of a part": (0x1470000000000000, False),
    "evict_first": (0x12F0000000000000, True),
    "evict_normal": (0x16F0000000000000, True),
    "unchanged": (0x1000000000000000, True),
    "a range": (0x12F0000000010000, False),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_cache_policy_may_be_a_number_that_keeps_nothing(name: str) -> None:
    number, harmless = NUMBERS[name]
    load = "ld.global.L2::cache_hint.f32 %f1, [%rd1], %rd2;"
    for ptx in (
        f"mov.u64 %rd2, {number};\n{load}",
        f"mov.u64 %rd3, {number};\nmov.b64 %rd2, %rd3;\n@%p1 {load}",
        f"selp.b64 %rd2, {0x1200000000000000}, {number}, %p2;\n{load}",
        f"ld.global.L2::cache_hint.f32 %f1, [%rd1], {number:#x}U;",
    ):
        assert (kept_in_l2(f".entry k() {{ {ptx} }}") is None) == harmless


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("createpolicy.fractional.L2::evict_first.b64 %rd2, 0f3F800000;", False),
        ("ld.param.u64 %rd2, [policy];", True),
        ("add.u64 %rd2, %rd4, %rd5;", True),
        ("mov.b64 %rd2, 0d3FF0000000000000;", True),
        ("mov.b64 %rd2, 017;", True),
        ("", True),
    ],
)
def test_a_policy_of_unknown_origin_is_refused(made: str, found: bool) -> None:
    copy = f"{made} cp.async.bulk.prefetch.L2.global.L2::cache_hint [%rd1], 16, %rd2;"
    assert bool(kept_in_l2(f".entry k() {{ {copy} }}")) == found


def test_a_policy_is_followed_through_any_number_of_moves() -> None:
    steps = "".join(f"mov.b64 %p{i + 1}, %p{i};\n" for i in range(20_000))
    load = "ld.global.L2::cache_hint.f32 %f1, [%rd1], %p20000;"
    for number, harmless in ((0x14F0000000000000, False), (0x12F0000000000000, True)):
        ptx = f".entry k() {{ mov.b64 %p0, {number};\n{steps}{load} mov.b64 %p0, %p20000; }}"
        assert (kept_in_l2(ptx) is None) == harmless
