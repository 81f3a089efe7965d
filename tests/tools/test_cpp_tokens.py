"""Tokens: what the compiler reads as code is read as code, and nothing else is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_chat.tools.cpp_tokens import Code, Token, tokens
from astra_vgpu.ground.toolkit import find_compiler


def names(source: str) -> list[tuple[str, int]]:
    return [(t.text, t.line) for t in tokens(source) if t.kind == "name"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a // b\nc", [("a", 1), ("c", 2)]),
        ("a /* b\n b */ c", [("a", 1), ("c", 2)]),
        ("a // b \\\n still b\nc", [("a", 1), ("c", 3)]),
        ("a // b \\  \n still b\nc", [("a", 1), ("c", 3)]),
        ("sys\\\ntem", [("system", 1)]),
        ('"b \\" b" a', [("a", 1)]),
        ("'\"' a '\\'' c", [("a", 1), ("c", 1)]),
        ("1'000'000 a 0x1p-3f c", [("a", 1), ("c", 1)]),
        ('R"(b " b)" a', [("a", 1)]),
        ('u8R"x(b )" b)x" a', [("a", 1)]),
        ('R"x(\n)\\\nx" b\n)x" a', [("a", 4)]),
        ('fooR"(" a', [("fooR", 1), ("a", 1)]),
        ('"/*" a "*/"', [("a", 1)]),
        ("#error don't stop\na", [("a", 2)]),
    ],
)
def test_code_is_told_from_comments_and_literals(
    source: str, expected: list[tuple[str, int]]
) -> None:
    assert names(source) == expected


def test_directives_name_their_tokens() -> None:
    found = list(tokens("#include <a.h>\n%: define f(x) x##y\ng"))
    assert found[0] == Token("directive", "include", 1, "include")
    assert found[1] == Token("header", "<a.h>", 1, "include")
    assert found[2] == Token("directive", "define", 2, "define")
    assert "##" in [t.text for t in found]
    assert found[-1] == Token("name", "g", 3)


@pytest.mark.parametrize(
    "source",
    ['R"(never closed', '"never closed\na', "a \\ b", "a ??= b", "// ??/\n", "a\rb", "a\0b"],
)
def test_what_compilers_could_read_differently_is_bad(source: str) -> None:
    assert [t for t in tokens(source) if t.kind == "bad"]


PIECES = st.sampled_from(
    ["a", "b1", " ", "\n", "//", "/*", "*/", '"', "'", "\\\n", 'R"(', ')"', '\\"', "0x1", "+", ";"]
)


@given(st.lists(PIECES, max_size=14).map("".join))
@settings(max_examples=60, deadline=None)
@pytest.mark.second_tier
def test_names_agree_with_the_compilers_preprocessor(source: str) -> None:
    found = list(tokens(source))
    done = subprocess.run(
        [find_compiler(), "-E", "-P", "-std=c++17", "-x", "c++", "-"],
        input=source,
        capture_output=True,
        text=True,
        check=False,
    )
    unclear = any(t.kind == "bad" for t in found) or "warning" in done.stderr
    if done.returncode or unclear:
        return
    stripped = re.sub(
        r'R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|\b[0-9]\w*',
        " ",
        done.stdout,
        flags=re.DOTALL,
    )
    ours = [t.text for t in found if t.kind == "name"]
    assert ours == re.findall(r"[A-Za-z_]\w*", stripped)


def test_every_shipped_kernel_reads_without_a_bad_token() -> None:
    root = Path(__file__).resolve().parents[2]
    sources = list((root / "sglang_kernels").rglob("*.cu"))
    assert sources
    for path in sources:
        assert not [t for t in tokens(path.read_text()) if t.kind == "bad"], path


def test_brackets_know_what_stands_in_them() -> None:
    code = Code(tokens("f(a, g(b, c)[d], {e}) ; h"))
    texts = [token.text for token in code]
    outer, inner = texts.index("("), texts.index("g") + 1
    around = {name: code.around(texts.index(name)) for name in "fabdeh"}
    square, curly = texts.index("["), texts.index("{")
    assert around == {"f": -1, "a": outer, "b": inner, "d": square, "e": curly, "h": -1}
    assert code.around(code.closing(inner)) == inner and code.around(len(code)) == -1
    arguments = code.arguments(outer, code.closing(outer))
    assert ["".join(t.text for t in one) for one in arguments] == ["a", "g(b,c)[d]", "{e}"]
    assert code.arguments(outer, outer) == [[]]
