"""Bounds on a case of a transcript; whole transcripts are in test_forged.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case
from astra_chat.transcript.reader import read
from astra_chat.transcript.recorded_cases import require_bounded, require_bounded_cases
from astra_chat.transcript.recorded_task import task_of
from astra_vgpu.ground.errors import BadInput

EXAMPLES = Path(__file__).resolve().parents[3] / "transcripts" / "examples"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"dims": {"tokens": 10**9, "d": 64}}, "is outside"),
        ({"dims": {"tokens": 65536, "d": 8192}}, "too many for a check"),
        ({"dims": {"tokens": 1}}, "are not"),
        ({"pad": 10**15}, "pad requires a task|too many"),
        ({"scalars": {"eps": 1.0}}, "only these scalars"),
    ],
)
def test_a_case_that_no_tester_may_ask_for(changed: dict[str, Any], said: str) -> None:
    task = find_task("silu_and_mul")
    case = Case(dims={"tokens": 4, "d": 64}, dtype="float32")
    require_bounded(task, case)
    with pytest.raises(ValueError, match=said):
        require_bounded(task, case.model_copy(update=changed))


def test_scalars_are_finite() -> None:
    task = find_task("fused_add_rmsnorm")
    (eps,) = task.scalars
    anything = task.model_copy(update={"scalars": (eps.model_copy(update={"range": None}),)})
    case = task.check[0]
    for value in (float("nan"), float("inf"), 1e300):
        wild = case.model_copy(update={"scalars": {"eps": value}})
        with pytest.raises(ValueError, match="is not a valid value of a scalar"):
            require_bounded(anything, wild)
        with pytest.raises(ValueError, match="is outside its range"):
            require_bounded(task, wild)


def test_the_recorded_tasks_own_cases_unless_trusted() -> None:
    """A task that is not one of Astra's may not time more on the virtual GPU than a tester asks."""
    transcript = read(EXAMPLES / "silu_and_mul-h200.jsonl.xz")
    with task_of(transcript, None) as task:
        large = Case(dims={"tokens": 65536, "d": 8192}, dtype="float32")
        other = task.model_copy(update={"demo": ((large, 1.0),), "name": "another"})
        with pytest.raises(BadInput, match=r"the task's timed case .* takes .* bytes"):
            require_bounded_cases(transcript, other, "virtual")
        require_bounded_cases(transcript, other, "virtual", trust=True)
        many = task.model_copy(update={"check": task.check * 20, "name": "another"})
        with pytest.raises(BadInput, match="check cases"):
            require_bounded_cases(transcript, many, "virtual")
