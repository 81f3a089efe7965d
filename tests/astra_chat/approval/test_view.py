"""What a human sees before deciding: nothing of it is taken for markup, nothing is endless."""

from __future__ import annotations

import io
from dataclasses import replace

from astra_chat.agents.approval import Question, question
from astra_chat.agents.run_state import state_of
from astra_chat.agents.turns import Turn
from astra_chat.approval.view import MAX_LINES, difference, show_question
from astra_chat.display.console import console
from astra_chat.tools.evaluation import Step
from tests.chat_samples import SCALAR, VECTOR, asking_turns, coded, plan


def asked(source: str) -> Question:
    turns = [
        *asking_turns(),
        Turn("planner", plan("Use [bold]tiles[/bold]")),
        *coded(source, "[red]words[/red]"),
    ]
    found = question(state_of(turns), SCALAR)
    assert found is not None
    return found


def shown(found: Question) -> str:
    out = io.StringIO()
    show_question(console(out), found)
    return out.getvalue()


def test_markup_in_kernels_is_text() -> None:
    text = shown(asked(VECTOR.replace("v = in[i]", "v = in[i]; smem[/tid]")))
    assert "smem[/tid]" in text and "[bold]tiles[/bold]" in text and "[red]words" in text


def test_what_was_found_before_it_ran_and_what_the_plan_expects() -> None:
    found = asked(VECTOR)
    assert found.plan is not None and found.build is not None
    steps = tuple(Step(name=name, seconds=0.1) for name in ("guard", "build", "audit"))  # type: ignore[arg-type]
    card = found.plan.model_copy(update={"moves": "down", "risk": "tails"})
    text = shown(replace(found, plan=card, build=found.build.model_copy(update={"steps": steps})))
    assert "guard and audit: no violations; build: no kernel" in text
    assert f"where: {card.anchor}" in text and "risk: tails" in text
    assert f"expected: 1.50x over its parent; {card.metric} down" in text


def test_the_difference_is_to_the_parent() -> None:
    lines = difference(asked(VECTOR))
    assert lines[0] == "--- the baseline" and lines[1].startswith("+++ ")
    assert "+  float4 v = in[i];" in lines and "-    out[i] = 2.0f * in[i];" in lines
    assert difference(replace(asked(VECTOR), parent=VECTOR)) == ["identical to the baseline"]


def test_a_long_difference_is_cut_where_that_is_asked_for() -> None:
    found = asked(VECTOR + "// line\n" * 1000)
    lines = difference(found)
    assert len(lines) > 1000 and lines[-1] in shown(found)
    out = io.StringIO()
    show_question(console(out), found, MAX_LINES)
    cut = out.getvalue()
    assert cut.count("// line") < MAX_LINES
    assert f"... {len(lines) - MAX_LINES:,} more lines in the diff: press d to show them all" in cut
    assert "more lines" not in shown(asked(VECTOR))
