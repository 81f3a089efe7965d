"""What a turn is shown as: sources as changes, failures explained, predictions beside facts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from astra_chat.agents.turns import Kernel, Turn
from astra_chat.display.turn_view import changes
from astra_chat.tools.evaluation import BuildReport
from astra_chat.tools.profiling.profile import unprofiled
from astra_chat.tools.types import BuildFailed
from astra_chat.transcript.reader import read
from tests.astra_chat.display.view_text import shown
from tests.chat_samples import (
    SCALAR,
    VECTOR,
    WRONG_OUTCOME,
    analysis,
    baseline_turns,
    build,
    evaluation,
    plan,
    timed,
    write_transcript,
)


@pytest.fixture
def show(tmp_path: Path) -> Callable[[list[Turn]], str]:
    """Text of a finished run of these turns."""
    return lambda turns: shown(read(write_transcript(tmp_path / "t.jsonl", turns)).records)


def test_kernel_text_is_never_markup(show: Callable[[list[Turn]], str]) -> None:
    log = "line 3: error: smem[tid] [/some/path] [bold]x[/bold] :smile:"
    failed = BuildReport(candidate="c" * 12, result=BuildFailed(log=log), steps=())
    kernel = Turn("coder", Kernel(words="[red]words[/red]", source="int smem[1]; [/x]\n"))
    text = show([*baseline_turns(), Turn("planner", plan()), kernel, Turn("executor", failed)])
    assert log in text and "[red]words[/red]" in text and "int smem[1]; [/x]" in text


def test_a_wrong_candidate_is_explained(show: Callable[[list[Turn]], str]) -> None:
    turns = [*baseline_turns(), Turn("executor", evaluation(VECTOR, WRONG_OUTCOME))]
    assert "out[3, 63] expected 1, got nan" in show(turns).replace("\n     ", " ")


def test_what_a_kernel_changed() -> None:
    assert changes("a\nb\nc\n", "a\nB\nc\n\nd\n") == ["- b", "+ B", "+ d"]
    assert changes(SCALAR, SCALAR) == []


def test_a_repair_is_shown_against_what_it_repairs(show: Callable[[list[Turn]], str]) -> None:
    first = Turn("coder", Kernel(words="", source=VECTOR))
    fixed = Turn("fixer", Kernel(words="", source=VECTOR + "int more;\n"))
    text = show([*baseline_turns(), Turn("planner", plan()), first, fixed])
    name = Kernel(words="", source=VECTOR).candidate
    assert f"+1 -0 lines against {name}" in text and "+ int more;" in text
    assert "against the baseline" in text, "the coder started from it"


def test_a_kernel_without_counters_is_not_called_bound(show: Callable[[list[Turn]], str]) -> None:
    found = timed(2.0)
    profile = unprofiled(found.cases[0], "no counters: no ncu")
    unknown = found.model_copy(update={"profile": profile})
    text = show([*baseline_turns(), Turn("executor", evaluation(VECTOR, unknown))])
    assert "of the limit, not profiled: no counters: no ncu" in text.replace("\n     ", " ")


def test_the_prediction_is_over_the_plans_parent(show: Callable[[list[Turn]], str]) -> None:
    turns = [
        *baseline_turns(),
        *(Turn("planner", plan()), Turn("coder", Kernel(words="", source=VECTOR))),
        *(Turn("executor", build(VECTOR)), Turn("executor", evaluation(VECTOR, timed(2.0)))),
        *(Turn("profiler", analysis()), Turn("planner", plan())),
        *(Turn("coder", Kernel(words="", source=SCALAR + "\n")),),
        Turn("executor", evaluation(SCALAR + "\n", timed(3.0))),
    ]
    assert "over its parent, estimated 1.50x" in show(turns).replace("\n     ", " ")
