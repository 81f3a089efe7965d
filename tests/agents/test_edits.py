"""Edits: made where their anchors stand, refused as text where they do not."""

from __future__ import annotations

import pytest

from astra_chat.agents.edits import kernel_of, lines_of
from astra_chat.agents.turns import Edit, Edits

SOURCE = "int a = 1;\nint b = 2;\nint c = 1;\n"


def edits(*pairs: tuple[str, str]) -> Edits:
    return Edits(words="w", edits=tuple(Edit(find=a, replace=b) for a, b in pairs))


def test_edits_make_a_whole_source() -> None:
    found = kernel_of(edits(("int c = 1", "int c = 3"), ("a = 1", "a = 7")), SOURCE)
    assert found.source == "int a = 7;\nint b = 2;\nint c = 3;\n"
    assert found.edits == 2 and found.words == "w"


def test_a_replacement_may_hold_another_ones_anchor() -> None:
    found = kernel_of(edits(("b = 2", "a = 1"), ("a = 1", "z = 0")), SOURCE)
    assert found.source == "int z = 0;\nint a = 1;\nint c = 1;\n"


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([("int d", "x")], "occurs 0 times"),
        ([(" = 1;", "x")], "occurs 2 times"),
        ([("", "x")], "occurs 0 times"),
        ([("int a = 1", "x"), ("a = 1;", "y")], "overlap"),
        ([("b = 2", "b = 2")], "change nothing"),
    ],
)
def test_what_cannot_be_made_is_said(pairs: list[tuple[str, str]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kernel_of(edits(*pairs), SOURCE)


def test_an_anchor_may_be_copied_from_a_listing() -> None:
    """With line numbers, and without the comment between its lines."""
    source = "int a = 1;\n\n// Two.\nint b = 2;\n"
    found = kernel_of(edits(("int a = 1;\n\n\nint b = 2; //4", "int c = 3; //1")), source)
    assert found.source == "int c = 3;\n"
    assert lines_of("int b = 2; //4", source) == [4]


@pytest.mark.parametrize("find", ["  if (a)\n    f(a,\n      b);\n", "if (a)\n\tf(a,\n\tb);\n"])
def test_an_anchor_whose_indentation_differs_is_found(find: str) -> None:
    source = "void g() {\n      if (a)  \n\tf(a,\r\n" + " " * 30 + "b);\n  f(b,  a);\n}\n"
    made = kernel_of(edits((find, "      h();\n"), ("f(b, a);", "g();")), source).source
    assert [line.strip() for line in made.splitlines()] == ["void g() {", "h();", "g();", "}"]


def test_an_anchor_that_only_indentation_tells_apart_is_refused() -> None:
    with pytest.raises(ValueError, match="occurs 2 times"):
        kernel_of(edits(("   f();\n    g();", "x")), "  f();\n  g();\n\tf();\n\tg();\n")


def test_lines_of_an_anchor() -> None:
    assert lines_of("  int b = 2;", SOURCE) == [2]
    assert lines_of("= 1;", SOURCE) == [1, 3]
    assert lines_of("nowhere", SOURCE) == [] == lines_of("  ", SOURCE)
