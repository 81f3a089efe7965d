"""PTX read for what persists, what rounds and what stays in the cache."""

from __future__ import annotations

import time

import pytest

from astra_chat.tools.policy.ptx_audit import (
    clock,
    kept_in_l2,
    launch_number,
    lent_memory,
    tensor_or_low_precision,
    tf32,
    waiting_kernels,
    written_globals,
)

HEAD = """
.visible .global .align 4 .b8 table[16] = {0, 0, 128, 63};
.global .align 1 .b8 $str[5] = {97, 98, 99, 10, 0};
.visible .entry kernel(.param .u64 out)
{
    .reg .b64 %rd<9>;
    mov.u64 %rd1, table;
    cvta.global.u64 %rd2, %rd1;
"""
NAMES = frozenset({"table", "$str"})


@pytest.mark.parametrize(
    "body",
    [
        "st.global.u32 [%rd1], 5;",
        "st.u32 [%rd2+4], 5;",
        "mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3; st.f32 [%rd4], %f1;",
        "@%p1 st.global.u32 [%rd1], 5;",
        "atom.global.add.u32 %r1, [%rd1], 1;",
        "red.global.add.u32 [%rd1+8], 1;",
        "st.global.u64 [%rd8], %rd2;",
        "{ .param .b64 a; st.param.b64 [a], %rd2; call.uni helper, (a); }",
        "bra L; L: mov.u64 %rd5, %rd2; st.u8 [%rd5], 1;",
        "%L: st.global.u32 [%rd1], 5;",
        "@!%p$1 st.global.u32 [%rd1], 5;",
        "@ %p1 st.global.u32 [%rd1], 5;",
        '.pragma "/*"; st.global.u32 [%rd1], 5; .pragma "*/";',
        '.pragma "//"; st.global.u32 [%rd1], 5;',
        "atom.shared.exch.b64 %rd5, [%r1], %rd2; ld.shared.b64 %rd6, [%r1];",
        "setp.ne.u64 %p1, %rd2, 0; @%p1 or.b64 %rd5, %rd5, 8; st.u8 [%rd5], 1;",
        "setp.ne.u64 %p1, %rd2, 0; @%p1 bra L; L: st.u8 [%rd5], 1;",
        "tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd5;",
    ],
)
def test_a_write_is_followed_to_its_variable(body: str) -> None:
    assert written_globals(f"{HEAD}{body} ret; }}", NAMES) == ["table"]


TEXT = "mov.u64 %rd3, $str; cvta.global.u64 %rd4, %rd3; "


@pytest.mark.parametrize(
    "body",
    [
        "st.local.u64 [%rd5], %rd4; ld.local.u64 %rd6, [%rd5]; st.u8 [%rd6], 1;",
        "st.local.u64 [%rd5], %rd4; ld.u16 %rs1, [%rd7]; cvt.u64.u16 %rd6, %rs1; st.u8 [%rd6], 1;",
        "st.local.v2.u64 [%rd5], {%rd7, %rd4}; call.uni helper, (param0);",
        "st.u64 [%rd5], %rd4;",
        "st.global.u64 [%rd5], %rd4;",
    ],
)
def test_a_string_s_address_is_followed_through_local_memory(body: str) -> None:
    assert written_globals(f"{HEAD}{TEXT}{body} ret; }}", NAMES) == ["$str"]


def test_a_string_may_be_printed_and_a_variable_s_address_is_not_kept() -> None:
    printed = "st.local.u64 [%rd5], %rd4; call.uni (retval0), vprintf, (param0, param1);"
    assert written_globals(f"{HEAD}{TEXT}{printed} ld.local.u64 %rd6, [%rd5]; ret; }}", NAMES) == []
    kept = "st.local.u64 [%rd5], %rd2; call.uni (retval0), vprintf, (param0, param1);"
    assert written_globals(f"{HEAD}{kept} ret; }}", NAMES) == ["table"]


@pytest.mark.parametrize(
    "body",
    [
        "ld.global.f32 %f1, [%rd1]; st.global.f32 [%rd8], %f1;",
        "ld.f32 %f1, [%rd2+4]; st.shared.f32 [%r9], %f1;",
        "// st.global.u32 [%rd1], 5;\n",
        '/* " */ ld.global.f32 %f1, [%rd1]; // " st.global.u32 [%rd1], 5;\n',
        "cp.async.ca.shared.global [%r1], [%rd1], 16;",
        "setp.lt.u32 %p1, %r1, %r2; @%p1 ld.global.f32 %f1, [%rd1]; @%p1 bra L; L:",
        "{ .param .b64 a; st.param.b64 [a], %rd2; call.uni (retval0), vprintf, (a, b); }",
        "st.global.u32 [%rd8], 5; atom.global.add.u32 %r1, [%rd7], 1;",
    ],
)
def test_reading_and_printing_are_no_writes(body: str) -> None:
    assert written_globals(f"{HEAD}{body} ret; }}", NAMES) == []


def test_a_variable_that_another_points_to_may_be_written() -> None:
    pointer = ".global .align 8 .u64 way = generic(table);"
    assert written_globals(f"{pointer} {HEAD} ret; }}", NAMES | {"way"}) == ["table"]


def test_another_functions_registers_are_others() -> None:
    second = ".visible .entry other() { st.global.u32 [%rd1], 5; ret; }"
    assert written_globals(f"{HEAD} ret; }} {second}", NAMES) == []


GIVER = """
.func (.param .b64 func_retval0) where()
{
    mov.u64 %rd1, table;
    st.param.b64 [func_retval0+0], %rd1;
    ret;
}
"""
TAKER = (
    ".visible .entry taker() {{ call.uni (retval0), {name}, ();"
    " ld.param.b64 %rd5, [retval0+0]; {use} }}"
)


@pytest.mark.parametrize(
    ("use", "written"),
    [
        ("st.global.u32 [%rd5], 1;", ["table"]),
        ("ld.global.u32 %r1, [%rd5]; st.u32 [%rd8], %r1;", []),
    ],
)
def test_an_address_is_followed_out_of_a_function(use: str, written: list[str]) -> None:
    assert written_globals(GIVER + TAKER.format(name="where", use=use), NAMES) == written


def test_an_address_is_followed_through_functions_that_hand_it_on() -> None:
    hands_on = (
        ".func (.param .b64 func_retval0) on() { call.uni (retval0), where, ();"
        " ld.param.b64 %rd2, [retval0+0]; st.param.b64 [func_retval0+0], %rd2; ret; }"
    )
    taker = TAKER.format(name="on", use="st.global.u32 [%rd5], 1;")
    assert written_globals(taker + hands_on + GIVER, NAMES) == ["table"]


def test_what_the_driver_lends_is_written_by_the_toolkit_s_own_lines_only() -> None:
    text = """
    .visible .entry k() {{
    .loc 2 76 1, function_name $L__info_string0, inlined_at 1 12 3
    mov.u32 %r1, %envreg2;
    cvt.u64.u32 %rd1, %r1;
    .loc {file} 9 1
    atom.add.release.gpu.u32 %r2, [%rd1+4], 1;
    .loc 1 13 1
    st.global.u32 [%rd8], 5;
    ret; }}
    .file 1 "kernel.cu"
    .file 2 "/usr/include/cooperative_groups/details/driver_abi.h"
    """
    assert lent_memory(text.format(file=2)) is None
    assert lent_memory(text.format(file=1)) == "atom.add.release.gpu.u32"


def test_kernels_that_wait() -> None:
    waits = ".visible .entry a() { griddepcontrol.wait; ret; } "
    hasty = ".visible .entry b() { // griddepcontrol.wait;\n ret; } "
    assert waiting_kernels(waits + hasty) == {"a"}
    assert waiting_kernels(hasty + ".func f() { griddepcontrol.wait; ret; }") == {"b"}


def test_precision() -> None:
    assert tf32("wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32 {%f1}, {%r1};")
    assert tf32("cvt.rna.tf32.f32 %r1, %f1;") == "cvt.rna.tf32.f32"
    assert tf32("// cvt.rna.tf32.f32 %r1, %f1;\nfma.rn.f32 %f1, %f2, %f3, %f4;") is None
    for low in (
        "cvt.rn.f16.f32 %rs1, %f1;",
        "fma.rn.bf16x2 %r1, %r2, %r3, %r4;",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1};",
        "cvt.rn.satfinite.e4m3x2.f32 %rs1, %f1, %f2;",
    ):
        assert tensor_or_low_precision(low), low
    assert (
        tensor_or_low_precision("fma.rn.f32 %f1, %f2, %f3, %f4; ld.global.b16 %rs1, [%rd1];")
        is None
    )


def test_cache_policy() -> None:
    assert kept_in_l2("createpolicy.fractional.L2::evict_last.b64 %rd1, 1.0;")
    assert kept_in_l2("ld.global.L2::evict_last.f32 %f1, [%rd1];")
    assert kept_in_l2("ld.global.L1::no_allocate.L2::evict_first.f32 %f1, [%rd1];") is None


def test_clocks_are_found_and_the_librarys_timer_may_be_let_pass() -> None:
    assert clock("mov.u64 %rd1, %clock64;", timer=False) == "%clock64"
    assert clock("mov.u32 %r1, %clock;", timer=False) == "%clock"
    waiting = "mov.u64 %rd1, %globaltimer;"
    assert clock(waiting, timer=True) == "%globaltimer" and clock(waiting, timer=False) is None
    assert clock("// %clock64\nmov.u64 %clocked, 1;", timer=True) is None


@pytest.mark.parametrize("register", ["%gridid", "%current_graph_exec", "%pm3", "%pm0_64"])
def test_what_tells_launches_apart_is_found(register: str) -> None:
    assert launch_number(f"mov.u64 %rd1, {register};") == register


@pytest.mark.parametrize("register", ["%envreg2", "%smid", "%ctaid.x", "%laneid"])
def test_what_kernels_ask_for_is_left(register: str) -> None:
    assert launch_number(f"mov.u32 %r1, {register};") is None


def test_whose_line_reads_the_timer() -> None:
    """Headers that wait read it; the candidate's own lines may not."""
    files = '.file 1 "/build/kernel.cu"\n.file 2 "/usr/include/cuda/barrier"\n'
    read = "mov.u64 %rd1, %globaltimer;\n"
    theirs = ".loc 1 3 1\nadd.s32 %r1, %r1, 1;\n.loc 2 9 1, function_name $L, inlined_at 1 4 1\n"
    theirs += read
    assert clock(theirs + files, timer=False) is None
    assert clock(theirs + files, timer=True) == "%globaltimer"
    assert clock(f"{theirs}.loc 1 5 1\n{read}{files}", timer=False) == "%globaltimer"


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


def test_a_long_chain_is_followed_in_time() -> None:
    """From its end to its beginning: a pass over all for each step would be minutes."""
    steps = "".join(f"mov.u64 %r{i + 1}, %r{i};\n" for i in range(30_000, 0, -1))
    ptx = f".entry k() {{ {steps} mov.u64 %r1, kept; st.global.u32 [%r30001], 1; }}"
    began = time.process_time()
    assert written_globals(ptx, frozenset({"kept"})) == ["kept"]
    assert time.process_time() - began < 20
