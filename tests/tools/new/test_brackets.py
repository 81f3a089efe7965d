"""Brackets and calls are found in tokens."""

from __future__ import annotations

from astra_chat.tools.new.brackets import argument_at, call_at, enclosing, partner

TEXTS = ["k", "<", "T", ">", "<<<", "g", ",", "b", ">>>", "(", "x", "[", "1", "]", ",", "f", "(",
         "y", ")", ")", ";", "z"]  # fmt: skip


def test_partners() -> None:
    assert partner(TEXTS, 9) == 19 and partner(TEXTS, 19) == 9 and partner(TEXTS, 11) == 13


def test_enclosing_brackets_end_with_the_statement() -> None:
    assert enclosing(TEXTS, 17) == 16 and enclosing(TEXTS, 15) == 9 and enclosing(TEXTS, 21) == -1


def test_calls_and_launches() -> None:
    assert call_at(TEXTS, 9) == (0, 9) and call_at(TEXTS, 16) == (15, 16)
    assert call_at(["if", "(", "x", ")"], 1) is None
    assert argument_at(TEXTS, 9, 10) == 0 and argument_at(TEXTS, 9, 17) == 1
