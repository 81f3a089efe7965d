"""Constant expressions, as ptxas 13.0 reads them."""

from __future__ import annotations

import pytest

from astra_vgpu.ptx.constants import constant, decimal, starts
from astra_vgpu.ptx.cursor import Cursor
from astra_vgpu.ptx.lexer import PtxSyntaxError, tokenize
from astra_vgpu.ptx.syntax import Immediate


def read(text: str) -> Immediate:
    cursor = Cursor(text, tokenize(text))
    found = constant(cursor)
    assert cursor.ended
    return found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("--5", 5),
        ("~1", -2),
        ("!3", 0),
        ("+4", 4),
        ("4*2+1", 9),
        ("1+4*2", 9),
        ("(1+4)*2", 10),
        ("1<<4", 16),
        ("-7/2", -3),
        ("-7 % 4", -3),
        ("7&3|8^1", 11),
        ("1 ? 2 : 3", 2),
        ("0 ? 2 : 1 ? 4 : 5", 4),
        ("2 > 1 && 1 != 1", 0),
        ("010", 8),
        ("0x10U", 16),
        ("0b101", 5),
        ("18446744073709551615", 2**64 - 1),
        ("9223372036854775807+1", -(2**63)),
        ("WARP_SZ", 32),
        ("WARP_SZ*2", 64),
        ("3 >= 3 || 1/1 == 2", 1),
    ],
)
def test_whole_numbers(text: str, value: int) -> None:
    assert read(text) == Immediate(value)


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("0f3F800000", 0x3F800000),
        ("-0f3F800000", 0xBF800000),
        ("1.5", 0x3FC00000),
        ("-1.5", 0xBFC00000),
        (".5", 0x3F000000),
        ("1.", 0x3F800000),
        ("1e3", 0x447A0000),
        ("1.0e39", 0x7F800000),
    ],
)
def test_floats(text: str, bits: int) -> None:
    assert decimal(read(text), "f32") == Immediate(bits, "f32")


def test_doubles() -> None:
    assert decimal(read("1.5"), "f64") == Immediate(0x3FF8000000000000, "f64")
    assert read("0d3FF8000000000000") == Immediate(0x3FF8000000000000, "f64")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*2",
        "1+",
        "(1",
        "1/0",
        "1+1.0",
        "0xFFFFFFFFFFFFFFFFF",
        "99999999999999999999",
        "1 ? 2",
        "name",
    ],
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(PtxSyntaxError):
        read(text)


def test_what_begins_one() -> None:
    assert [starts(token) for token in tokenize('5 -1 (2) "5" x !y')][:2] == [True, True]
    assert not starts(tokenize('"-"')[0]) and not starts(tokenize("x")[0])
