"""Which registers some path reads unset, and what may follow from them."""

from __future__ import annotations

import pytest
from tests.lowering.test_control_flow import blocks

from astra_vgpu.lowering.unset_registers import (
    unset_registers,
    watched_registers,
)

SET = "setp.eq.u32 %p1, 1, 1;"


@pytest.mark.parametrize(
    ("body", "unset"),
    [
        ("mov.u32 %r1, 1; add.u32 %r2, %r1, 1; ret;", set()),
        ("add.u32 %r2, %r1, 1; mov.u32 %r1, 1; ret;", {"%r1"}),
        (f"{SET} @%p1 bra L; mov.u32 %r1, 1; L: add.u32 %r2, %r1, 1; ret;", {"%r1"}),
        (
            f"{SET} @%p1 bra L; mov.u32 %r1, 1; bra M; L: mov.u32 %r1, 2; "
            "M: not.b32 %r2, %r1; ret;",
            set(),
        ),
        (f"{SET} @%p1 mov.u32 %r1, 1; not.b32 %r2, %r1; ret;", {"%r1"}),
        ("@%p2 bra L; trap; L: ret;", {"%p2"}),
        (f"{SET} L: not.b32 %r2, %r1; mov.u32 %r1, 1; @%p1 bra L; ret;", {"%r1"}),
        ("bar.red.popc.u32 %r1, 0, %p3; not.b32 %r2, %r1; ret;", {"%p3"}),
    ],
)
def test_reads_before_any_store_are_found_on_every_path(body: str, unset: set[str]) -> None:
    assert unset_registers(blocks(body)).keys() == unset


def test_the_first_reader_is_named() -> None:
    found = unset_registers(blocks("add.u32 %r2, %r1, 1; not.b32 %r3, %r1; ret;"))
    reader = found["%r1"]
    assert reader is not None and reader.opcode == "add.u32"


def test_values_are_followed_through_instructions_and_guards() -> None:
    body = (
        f"{SET} add.u32 %r2, %r1, 1; setp.lt.u32 %p2, %r2, 5; mov.u32 %r3, 0; "
        "@%p2 mov.u32 %r3, 1; mov.u32 %r4, 7; ret;"
    )
    watched = watched_registers(blocks(body), ["%r1"])
    assert watched == {"%r1", "%r2", "%p2", "%r3"}


def test_what_comes_from_memory_or_a_barrier_is_not_followed() -> None:
    body = "ld.shared.u32 %r2, [%r1]; setp.eq.u32 %p1, %r1, 0; bar.red.popc.u32 %r3, 0, %p1; ret;"
    assert watched_registers(blocks(body), ["%r1"]) == {"%r1", "%p1"}
