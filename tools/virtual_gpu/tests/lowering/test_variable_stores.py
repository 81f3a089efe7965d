"""Module variables that a kernel may write to, as its PTX tells; those it only reads pass."""

from __future__ import annotations

import pytest

from astra_vgpu.lowering.variable_stores import stored_parameters, written_variables

HEAD = (
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".visible .global .align 4 .u32 ticket;\n.global .align 8 .b8 room[64];\n"
    ".const .align 4 .f32 factors[4];\n.shared .align 16 .b8 tile[64];\n"
    ".global .align 8 .u64 places[2] = {generic(room), 0};\n"
)
ENTRY = (
    ".visible .entry kernel(.param .u64 out)\n"
    "{ .reg .pred %p<4>; .reg .b32 %r<9>; .reg .f32 %f<4>; .reg .b64 %d<9>;"
    " ld.param.u64 %d0, [out]; mov.u32 %r0, %tid.x;\n"
)
TAKES = (
    ".func (.param .b32 found) take(.param .b64 counter, .param .b64 table)\n"
    "{ .reg .b64 %d<3>; .reg .b32 %r<3>; ld.param.u64 %d1, [counter]; ld.param.u64 %d2, [table];\n"
    " ld.u32 %r2, [%d2]; atom.add.u32 %r1, [%d1], %r2; st.param.b32 [found], %r1; ret; }\n"
)


def written(body: str, functions: str = "") -> tuple[str, ...]:
    return written_variables(f"{HEAD}{functions}{ENTRY}{body} ret; }}")


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("atom.global.add.u32 %r1, [ticket], 1;", ("ticket",)),
        ("mov.u64 %d1, ticket; red.relaxed.gpu.global.add.u32 [%d1], 1;", ("ticket",)),
        (
            "mov.u64 %d1, room; cvta.global.u64 %d2, %d1; mad.wide.u32 %d3, %r0, 4, %d2;"
            " st.u32 [%d3+8], %r0;",
            ("room",),
        ),
        ("mov.u64 %d1, factors; cvta.const.u64 %d2, %d1; st.f32 [%d2], %f1;", ("factors",)),
        (
            "setp.eq.u32 %p0, %r0, 0; mov.u64 %d1, room; selp.b64 %d2, %d0, %d1, %p0;"
            " st.global.u32 [%d2], 1;",
            ("room",),
        ),
        # The address of a variable stands in a table of the module.
        ("ld.global.u64 %d1, [places]; st.u32 [%d1], 1;", ("room",)),
        ("cp.async.bulk.global.shared::cta.bulk_group [room], [tile], 16;", ("room",)),
        (
            "mov.u64 %d1, room; cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d1],"
            " [tile], 16;",
            ("room",),
        ),
        ("st.global.u32 [ticket], 1; st.global.u32 [room], 1;", ("room", "ticket")),
        ("{ .global .align 4 .u32 own; red.global.add.u32 [own], 1; }", ("own",)),
        # Set back in the end: two calls at once would still share it.
        ("atom.global.add.u32 %r1, [ticket], 1; st.global.u32 [ticket], 0;", ("ticket",)),
    ],
)
def test_a_store_to_a_module_variable_is_found(body: str, names: tuple[str, ...]) -> None:
    assert written(body) == names


@pytest.mark.parametrize(
    "body",
    [
        "",
        "ld.const.f32 %f1, [factors+4]; st.global.f32 [%d0], %f1;",
        "ld.global.nc.u32 %r1, [ticket]; st.global.u32 [%d0], %r1;",
        # What a table holds is a place in an argument.
        "mov.u64 %d1, room; ld.global.u32 %r1, [%d1]; mad.wide.u32 %d2, %r1, 4, %d0;"
        " st.global.u32 [%d2], %r1;",
        "setp.eq.u64 %p0, %d0, 0; mov.u64 %d1, room; selp.b64 %d2, %d1, %d0, %p0;"
        " ld.global.u32 %r1, [%d2]; st.global.u32 [%d0], %r1;",
        "cp.async.ca.shared.global [tile], [room], 16;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [room], 16,"
        " [tile];",
        "cp.async.bulk.prefetch.L2.global [room], 16;",
        "st.shared.u32 [tile], 1; red.global.add.u32 [%d0], 1;",
        # One name in two asm statements is two registers.
        "{ .reg .b64 p; mov.u64 p, room; ld.global.u32 %r1, [p]; }"
        " { .reg .b64 p; mov.u64 p, %d0; st.global.u32 [p], %r1; }",
    ],
)
def test_a_variable_that_is_only_read_passes(body: str) -> None:
    assert written(body) == ()


CALL = (
    "mov.u64 %d1, {}; mov.u64 %d2, {}; {{ .param .b64 a; .param .b64 b; .param .b32 r;"
    " st.param.b64 [a], %d1; st.param.b64 [b], %d2; call.uni (r), take, (a, b);"
    " ld.param.b32 %r1, [r]; }} st.global.u32 [%d0], %r1;"
)


def test_addresses_are_followed_into_functions_that_are_not_inlined() -> None:
    """Each parameter by itself: the function reads through its second."""
    assert written(CALL.format("ticket", "room"), TAKES) == ("ticket",)
    assert written(CALL.format("%d0", "room"), TAKES) == ()


def test_what_cannot_be_inlined_is_looked_at_by_itself() -> None:
    outside = ".extern .func outside();\n"
    body = "call.uni outside; atom.global.add.u32 %r1, [ticket], 1;"
    assert written(body, outside) == ("ticket",)
    assert written("call.uni outside; ld.global.u32 %r1, [ticket];", outside) == ()


def test_parameters_that_a_kernel_may_store_to() -> None:
    """Each of a structure's members by its offset, in functions that are not inlined too."""
    entry = (
        ".visible .entry kernel(.param .u64 one, .param .u64 two, .param .align 8 .b8 both[16])\n"
        "{ .reg .b32 %r<3>; .reg .b64 %d<9>; ld.param.u64 %d0, [two]; ld.param.u64 %d3, [both+8];"
        " ld.param.u64 %d4, [one]; ld.global.u32 %r1, [%d4]; st.global.u32 [%d3+4], %r1;\n"
    )
    assert stored_parameters(f"{HEAD}{entry} ret; }}", "kernel") == {24}
    call = CALL.format("%d0", "%d4").replace("st.global.u32 [%d0], %r1;", "")
    assert stored_parameters(f"{HEAD}{TAKES}{entry}{call} ret; }}", "kernel") == {8, 24}


@pytest.mark.parametrize(
    "moves",
    [
        "mov.b64 %d0, both; ld.param.u64 %d3, [%d0+8];",
        "mov.b64 %d0, both; add.s64 %d1, %d0, 8; ld.param.u64 %d3, [%d1];",
        "mov.b64 %d0, both; mov.b64 %d2, %d0; ld.param.u64 %d3, [%d2+8];",
        "mov.b64 %d0, both+8; ld.param.v2.u64 {%d3, %d4}, [%d0];",
    ],
)
def test_addresses_of_parameters_are_followed_in_registers(moves: str) -> None:
    """nvcc reads a large structure so."""
    entry = ".visible .entry kernel(.param .u64 one, .param .align 8 .b8 both[16])\n"
    body = f"{{ .reg .b32 %r<3>; .reg .b64 %d<9>; {moves} st.global.u32 [%d3+4], %r1; ret; }}"
    assert stored_parameters(HEAD + entry + body, "kernel") == {16}
    computed = moves.replace("8;", "%d8;").replace("[%d0+8]", "[%d0]") if "add" in moves else ""
    if computed:
        found = stored_parameters(HEAD + entry + body.replace(moves, computed), "kernel")
        assert found == {8, 16}
