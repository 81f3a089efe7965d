"""What a human sees before deciding: nothing of it is taken for markup, nothing is endless."""

from __future__ import annotations

import io
from dataclasses import replace

from astra_chat.agents.approval import Question, question
from astra_chat.agents.payloads import Kernel
from astra_chat.agents.thread import Limits, Turn
from astra_chat.approval_view import MOST_LINES, difference, show_question
from astra_chat.console import console
from tests.chat_samples import SCALAR, VECTOR, asking_turns, build, plan


def asked(source: str) -> Question:
    turns = [
        *asking_turns(),
        Turn("planner", plan("Use [bold]tiles[/bold]")),
        Turn("coder", Kernel(words="[red]words[/red]", source=source)),
        Turn("executor", build(source)),
    ]
    found = question(turns, SCALAR, Limits())
    assert found is not None
    return found


def shown(found: Question) -> str:
    out = io.StringIO()
    show_question(console(out), found)
    return out.getvalue()


def test_markup_in_kernels_is_text() -> None:
    text = shown(asked(VECTOR.replace("v = in[i]", "v = in[i]; smem[/tid]")))
    assert "smem[/tid]" in text and "[bold]tiles[/bold]" in text and "[red]words" in text
    assert "guard, build and audit: builds" in text


def test_the_difference_is_to_the_parent() -> None:
    lines = difference(asked(VECTOR))
    assert lines[0] == "--- the baseline" and lines[1].startswith("+++ ")
    assert "+  float4 v = in[i];" in lines and "-    out[i] = 2.0f * in[i];" in lines
    assert difference(replace(asked(VECTOR), parent=VECTOR)) == ["the same text as the baseline"]


def test_a_long_difference_is_cut() -> None:
    found = asked(VECTOR + "// line\n" * 1000)
    assert len(difference(found)) == MOST_LINES + 1 and "more lines" in difference(found)[-1]
