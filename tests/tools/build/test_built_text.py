"""The text that a compiler gets: the guard's tokens, on the author's lines."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_chat.tools.build.nvcc import Unreadable, built_text, header_text
from astra_chat.tools.cpp_tokens import tokens
from astra_chat.tools.recordings.reading import expanded
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import texts
from astra_vgpu.ground.toolkit import find_compiler
from tests.recorded_files import ARCHIVE

ROOT = Path(__file__).resolve().parents[3]
KERNELS = ("sglang_kernels", "tests/attacks")


def read_tokens(source: str) -> list[tuple[str, str, int, str]]:
    return [(t.kind, t.text, t.line, t.directive) for t in tokens(source) if t.kind != "text"]


WRITTEN = {
    "comments are blanks": ("a /* b */ c // d\ne\n", "a         c\ne\n"),
    "columns count bytes": ("a /* \u00e9 */ c\n", "a          c\n"),
    "a comment over lines": ("/* a\n b */ c\n", "\n      c\n"),
    "a comment at a line's end": ("a /* b\n c */\nd\n", "a\n\nd\n"),
    "a comment amid a logical line": ("a /*\n*/ # b\n", "a   \\\n   # b\n"),
    "a comment in a directive": ("#define A 1 /*\n*/ 2\n", "#define A 1   \\\n   2\n"),
    "a comment that splices go on": ("// a \\\n b\nc\n", "\n\nc\n"),
    "a line continuation": ("#define A \\ \n  x \\\n  + 1\n", "#define A \\\n  x \\\n  + 1\n"),
    "a name over two lines": ("sys\\\ntem = 1;\n", "system\\\n = 1;\n"),
    "macros with and without arguments": (
        "#define F(x) x\n#define G (x)\n",
        "#define F(x) x\n#define G (x)\n",
    ),
    "operators stay whole": (
        "k<<<g, b>>>(a);a<<=b>>2;v<v<int>>x;p->*q;a<=>b;c++ +d;x=-1;",
        "k<<<g, b>>>(a);a<<=b>>2;v<v<int>>x;p->*q;a<=>b;c++ +d;x=-1;\n",
    ),
    "numbers": ("1'000'000u+0x1.8p-3f+.5e+2-1.f", "1'000'000u+0x1.8p-3f+.5e+2-1.f\n"),
    "digraphs are what they stand for": ("%:define A a<:1:>\n", "# define A a [ 1 ]\n"),
    "the digraph that is none": ("std::vector<::T> x;", "std::vector<::T> x;\n"),
    "prefixes touch their literals": (
        'f(L"a", u8R"x(b\n)" )x", U\'c\');',
        'f(L"a", u8R"x(b\n)" )x", U\'c\');\n',
    ),
    "no prefix is made": ('F"a" f"b"', 'F "a" f "b"\n'),
    "literals that touch": ('"a""b"', '"a" "b"\n'),
    "assembly": (
        'asm("{ mov.u32 %0, %%laneid; /* x */ }"::"r"(x));',
        'asm("{ mov.u32 %0, %%laneid; /* x */ }"::"r"(x));\n',
    ),
    "what an #error says": ("#error don't /* stop\na\n", "#error don t    stop\na\n"),
    "line ends of two characters": ("a\r\n\tb \\\r\n c\r\n", "a\n\tb \\\n c\n"),
    "a raw string keeps its blanks": ('R"(a \\\n  \nb)" c \n', 'R"(a \\\n  \nb)" c\n'),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_it_is_written(name: str) -> None:
    source, expected = WRITTEN[name]
    assert built_text(source) == expected
    assert read_tokens(expected) == read_tokens(source)
    assert built_text(expected) == expected


def test_the_second_reader_sees_what_the_first_saw() -> None:
    """A literal and a raw string that touch were one literal and code to a compiler."""
    hidden = 'auto s = "a"R"(" ; int f() { return system("ls"); } //)";\n'
    with pytest.raises(Unreadable, match="R directly follows a literal"):
        built_text(hidden)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ('"a"_s', "line 1: _s directly follows a literal"),
        ("\n'a'R", "line 2: R directly follows a literal"),
        ('R"(a\n)"_s', "line 2: _s directly follows a literal"),
        ("\ufeff#define A", "a byte-order mark"),
        ("\u200b#define A", "the character U+200B outside"),
        ("int a;\u2028#define A", "the character U+2028 outside"),
        ("\u0085#define A", "the character U+0085 outside"),
        ("\x1a#define A", "the control character U+001A outside"),
        ("int a\x0b= 1;", "the control character U+000B outside"),
        ("int caf\u00e9;", "the character U+00E9 outside"),
        ('"a\x1bb"', "the control character U+001B in a literal"),
        ('"\ud800"', "half of a UTF-16 surrogate pair"),
        ("a\n/* b", "line 2: an unterminated comment"),
    ],
)
def test_what_could_be_read_in_two_ways_is_not_written(source: str, why: str) -> None:
    with pytest.raises(Unreadable) as raised:
        built_text(source)
    assert why in str(raised.value)
    assert header_text(source) == source


@pytest.mark.parametrize("text", ['"\u00e9"', "// \u2028 \x0c \u00e9", "/* \ufeff */", "'\u00e9'"])
def test_literals_and_comments_hold_any_character(text: str) -> None:
    assert built_text(f"{text}\n").count("\n") == 1


def recorded_sources() -> dict[str, str]:
    """Every kernel of a transcript, every attack, honest kernel and baseline, by name."""
    found: dict[str, str] = {}
    runs = [*(ROOT / "transcripts").rglob("*.jsonl*"), *(ROOT / "sglang_kernels").rglob("*.jsonl*")]
    members = (path for path in expanded([ARCHIVE]) if path.suffix == ".jsonl")
    for path in (*runs, *members):
        for sha, text in texts(read(path).records).items():
            if "__global__" in text and 'extern "C"' in text:
                found[sha] = text
    for folder in KERNELS:
        found |= {str(path): path.read_text() for path in (ROOT / folder).rglob("*.cu")}
    return found


def test_every_recorded_source_is_written_with_its_own_tokens() -> None:
    """On its own lines; a blank is added in none of them."""
    sources = recorded_sources()
    assert len(sources) > 500
    for name, source in sources.items():
        if name.endswith("h14_hides_in_strings.cu"):
            continue
        built = built_text(source)
        assert read_tokens(built) == read_tokens(source), name
        changed = [
            author
            for author, line in zip(source.split("\n"), built.split("\n"), strict=False)
            if author.rstrip() != line and not re.search(r"//|/\*|\*/|^\s*\*", author)
        ]
        assert [line for line in changed if line.strip() and line.isascii()] == [], name


PIECES = st.sampled_from(
    [
        *("a", "R", "u8", "L", "1", "e-", "$", "'", '"', 'R"(', ')"', "\\\n", "\n", " ", "\\"),
        *("//", "/*", "*/", "#", "<:", ":>", "%:", "+", "=", "<", ">", ":", ".", "-", "&"),
        "#define f(x) x",
    ]
)


def preprocessed(source: str, *options: str) -> list[str] | None:
    done = subprocess.run(
        [find_compiler(), "-E", "-P", "-std=c++17", *options, "-x", "c++", "-"],
        input=source,
        capture_output=True,
        text=True,
        check=False,
    )
    return None if done.returncode or "warning" in done.stderr else done.stdout.split("\n")


@given(st.lists(PIECES, max_size=14).map("".join))
@settings(max_examples=60, deadline=None)
def test_the_compilers_preprocessor_reads_the_same_tokens(source: str) -> None:
    try:
        built = built_text(source)
    except Unreadable:
        return
    assert read_tokens(built) == read_tokens(source)
    assert built_text(built) == built
    if (expanded := preprocessed(built, "-fpreprocessed")) is not None and "#" not in built:
        found = [t.text for t in tokens("\n".join(expanded))]
        assert found == [t.text for t in tokens(built)]
