"""Sources keep their text, line by line, and others' text is no markup."""

from __future__ import annotations

import html
import re
from pathlib import Path

from astra_chat.report.highlight import LONGEST, highlighted

ROOT = Path(__file__).parents[3]


def text_of(lines: list[str]) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", "\n".join(lines)))


def test_the_text_of_real_kernels_stays() -> None:
    for path in sorted((ROOT / "sglang_kernels").rglob("*.cu")):
        source = path.read_text()
        assert text_of(highlighted(source)) == source, path


def test_colours() -> None:
    line = highlighted('constexpr int k = 16;  // "a"')[0]
    assert "<i class=k>constexpr</i>" in line and "<i class=m>16</i>" in line
    assert "<i class=c>// &#34;a&#34;</i>" in line


def test_a_comment_over_several_lines() -> None:
    lines = highlighted('int a; /* b\nint c;\n*/ int d; // /*\nint e = "/*";\nint f;')
    assert lines[1] == "<i class=c>int c;</i>"
    assert lines[2].startswith("<i class=c>*/</i>")
    assert all("<i class=k>int</i>" in lines[n] for n in (0, 2, 3, 4))


def test_nothing_is_markup_and_nothing_unseen() -> None:
    lines = highlighted("</pre><script>\u202e" + "x" * LONGEST + "\n<b>")
    assert "<script" not in lines[0] and "\\x202e" in lines[0] and "<i" not in lines[0]
    assert lines[1].count("<") == lines[1].count("<i") + lines[1].count("</i")
