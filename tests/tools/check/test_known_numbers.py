"""Which numbers of a candidate are tried, and in which order."""

from __future__ import annotations

import pytest

from astra_chat.tools.check.known_numbers import HostNumber, gathered
from astra_chat.tools.check.ptx_numbers import ptx_numbers
from astra_chat.tools.known import KnownNumbers

HEAD = ".visible .entry f()\n{\nld.param.u32 %r1, [f_param_0];\nld.global.u16 %rs1, [%rd1];\n"


def known(lines: str, *host: HostNumber) -> KnownNumbers:
    return gathered(ptx_numbers(f"{HEAD}{lines}\n}}\n"), host)


def test_unusual_sizes_come_first_with_their_neighbours() -> None:
    lines = "setp.eq.s32 %p1, %r1, 4096;\nsetp.eq.s32 %p1, %r1, 4711;\nsetp.eq.s32 %p1, %r1, 12;"
    found = known(lines).sizes
    assert found[:4] == (4711, 4712, 4713, 4710)
    assert found[4:8] == (4096, 4097, 4098, 4095) and found[8] == 12


def test_what_lies_beyond_a_bound_comes_before_the_bound() -> None:
    assert known("setp.gt.s32 %p1, %r1, 4999;").sizes == (5001, 5000, 4999, 4998)


def test_numbers_of_threads_are_left_out() -> None:
    assert not known("mov.u32 %r2, %tid.x;\nsetp.eq.s32 %p1, %r2, 911;")


def test_bits_are_those_of_loaded_values() -> None:
    assert known("setp.eq.s16 %p1, %rs1, 16457;").bits == (16457,)
    assert not known("setp.eq.s32 %p1, %r1, 16457;").bits


@pytest.mark.parametrize("modulus", [97, 1024])
def test_rests_of_large_divisors_are_kept(modulus: int) -> None:
    assert known("", HostNumber(13.0, False, True, modulus)).rests == ((13, modulus),)
    assert not known("", HostNumber(3.0, False, True, 8)).rests


def test_host_numbers_that_are_compared_come_first() -> None:
    host = (HostNumber(129.0, False, False), HostNumber(333.0, False, True))
    assert known("", *host).sizes[:2] == (333, 129)
    assert known("", HostNumber(1e-4, True, True)).values == (1e-4,)


def test_nothing_known_is_false_and_reads_as_it_was_written() -> None:
    assert not KnownNumbers()
    some = known("setp.eq.s16 %p1, %rs1, 16457;", HostNumber(13.0, False, True, 97))
    assert some and KnownNumbers.model_validate_json(some.model_dump_json()) == some
