"""The document of results: every figure from a recorded run, and one line for what is not one."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from astra_chat.agents import thread as facts
from astra_chat.results import document, load, mean_interval
from astra_chat.tools.errors import BadInput
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import thread

EXAMPLE = Path(__file__).resolve().parents[2] / "transcripts/examples/silu_and_mul-h200.jsonl"


def test_every_case_and_every_candidate_stands_in_it() -> None:
    runs, others = load([EXAMPLE])
    text = document(runs, others)
    (run,) = runs
    for case in run.timed.cases:
        assert f"| {case.case.label} |" in text and f"{case.ratio:.3f} (" in text
    for found in facts.rounds(thread(read(EXAMPLE).records)):
        assert all(attempt.kernel.candidate in text for attempt in found.attempts)
    assert f"**{run.timed.ratio:.3f}x**" in text


def test_another_kernel_beside_the_winner(tmp_path: Path) -> None:
    (run,), _ = load([EXAMPLE])
    slower = [c.model_copy(update={"median_us": 8 * c.median_us}) for c in run.timed.cases]
    timed = run.timed.model_copy(update={"cases": tuple(slower)})
    evaluation = run.evaluation.model_copy(update={"outcome": timed, "candidate": "0" * 12})
    path = tmp_path / "paper.json"
    dumped = evaluation.model_dump(mode="json")
    path.write_text(json.dumps({"schema": "astra-chat/evaluation/1", "evaluation": dumped}))
    text = document(*load([EXAMPLE, path]))
    assert "(paper)" in text and "Geometric mean of the cold column: **8.00x**" in text


def test_the_interval_of_the_mean_holds_the_mean() -> None:
    (run,), _ = load([EXAMPLE])
    low, high = mean_interval(run.timed.cases)
    assert low < run.timed.ratio < high and math.log(high / low) < 0.02


@pytest.mark.parametrize("text", ["{}", "[]", "nothing", '{"schema": "other/1"}'])
def test_what_is_no_evaluation_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"x\.json"):
        load([path])
