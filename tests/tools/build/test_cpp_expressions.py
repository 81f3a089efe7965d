"""Expressions of a contract as C++."""

from __future__ import annotations

import pytest

from astra_chat.tools.build.cpp_expressions import cpp, cpp_relation, factors


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("2*d", "int64_t{2}*D"),
        ("a + b // 2", "(A + (B / int64_t{2}))"),
        ("-a % b", "((-A) % B)"),
        ("ceil_div(a, 64) * 256", "((A + int64_t{64} - 1) / int64_t{64})*int64_t{256}"),
        ("min(a, b, 1)", "std::min<int64_t>({A, B, int64_t{1}})"),
    ],
)
def test_what_is_written(text: str, spelled: str) -> None:
    assert cpp(text, str.upper) == spelled


def test_relations() -> None:
    assert cpp_relation("0 < a <= b", str.upper) == "int64_t{0} < A && A <= B"


def test_products() -> None:
    assert factors("2*a*b") == ("2", "a", "b") and factors("a") == ("a",)
    assert factors("a + 1") is None and factors("ceil_div(a, 2)*b") is None
