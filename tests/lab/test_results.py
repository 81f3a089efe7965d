"""The document of results: every figure from a recorded run, and one line for what is not one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from astra_chat.agents.run_state import state_of
from astra_chat.tools.recordings.reading import expanded
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import turns_of
from astra_vgpu.ground.errors import BadInput
from lab.results import document, load
from tests.recorded_files import EXAMPLES, PLAIN, ROOT

EXAMPLE = PLAIN / "silu_and_mul-h200.jsonl.xz"


def test_every_case_and_every_candidate_stands_in_it() -> None:
    found = load([EXAMPLE])
    text = document(found)
    (run,) = found.runs
    for case in run.timed.cases:
        assert f"| {case.case.label} |" in text and f"{case.ratio:.3f} (" in text
    for one in state_of(turns_of(read(EXAMPLE).records)).rounds:
        assert all(attempt.kernel.candidate in text for attempt in one.attempts)
    assert f"**{run.timed.ratio:.3f}x**" in text


def test_another_kernel_beside_the_winner(tmp_path: Path) -> None:
    (run,) = load([EXAMPLE]).runs
    slower = [c.model_copy(update={"median_us": 8 * c.median_us}) for c in run.timed.cases]
    timed = run.timed.model_copy(update={"cases": tuple(slower)})
    evaluation = run.evaluation.model_copy(update={"outcome": timed, "candidate": "0" * 12})
    path = tmp_path / "paper.json"
    dumped = evaluation.model_dump(mode="json")
    path.write_text(json.dumps({"schema": "astra-chat/evaluation/1", "evaluation": dumped}))
    text = document(load([EXAMPLE, path]))
    (summary,) = [line for line in text.splitlines() if line.startswith("| silu_and_mul |")]
    assert "| 8.00 |" in summary
    assert all(f"| {8 * case.median_us:.2f} |" in text for case in run.timed.cases)


def test_the_document_in_the_repository_is_made_from_its_evidence() -> None:
    committed = (ROOT / "docs/research/results.md").read_text()
    named = re.findall(r"candidate `[0-9a-f]{12}` from ([\w.-]+\.jsonl)", committed)
    runs = [EXAMPLES / "h200" / name for name in named]
    evidence = expanded(EXAMPLES / place / "*.json" for place in ("h200", "virtual"))
    assert document(load([*runs, *evidence])).strip() == committed.strip()


@pytest.mark.parametrize("text", ["{}", "[]", "nothing", '{"schema": "other/1"}'])
def test_what_is_no_evaluation_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"x\.json"):
        load([path])
