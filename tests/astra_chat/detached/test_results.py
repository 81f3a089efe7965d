"""Results count for their own job and version of the judge only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from astra_chat.detached.jobs import read_job
from astra_chat.detached.results import (
    REFUSED,
    RESULT,
    Result,
    misfit,
    refusal_of,
    result_of,
    write_refusal,
    write_result,
)
from astra_chat.mailbox.files import Unreadable, replace
from astra_chat.tools.system.devices import virtual_device, wanted_device
from astra_chat.tools.task.folder import Task
from astra_chat.tools.tuning.tuned import Tuning
from astra_vgpu.ground.errors import MissingDependency
from tests.astra_chat.job_samples import job_of, put, result_for
from tests.chat_samples import DEVICE, SCALAR, VECTOR
from tests.full_disk import full_disk


def test_a_result_is_read_back(task: Task, tmp_path: Path) -> None:
    folder = put(tmp_path, task, SCALAR)
    job = read_job(folder)
    assert result_of(folder, job) is None
    write_refusal(folder, "no such\nGPU", "box:1")
    assert (refusal := refusal_of(folder)) and (refusal.why, refusal.worker) == (
        "no such GPU",
        "box:1",
    )
    result = result_for(job, SCALAR)
    write_result(folder, result)
    assert result_of(folder, job) == result and refusal_of(folder) is None


def other_evaluation(result: Result, **changes: Any) -> dict[str, Any]:
    return {"found": result.evaluation.model_copy(update=changes)}


def tuning(candidate: str) -> Tuning:
    return Tuning(candidate=candidate, combinations=1, points=(), start={}, best={}, seconds=1.0)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda r: {"job": 64 * "0"}, "it belongs to another job"),
        (lambda r: {"judge_sha256": 64 * "0"}, "another version of the judge"),
        (
            lambda r: other_evaluation(r, candidate="0123456789ab"),
            "it is for candidate 0123456789ab",
        ),
        (lambda r: other_evaluation(r, device=virtual_device("h100")), "judged on virtual GPU"),
        (lambda r: other_evaluation(r, seed=""), "it was judged with a different seed"),
        (lambda r: other_evaluation(r, confirms=True), "it was judged with a different seed"),
        (lambda r: {"found": tuning(r.evaluation.candidate)}, "the job asks for an evaluation"),
    ],
    ids=["job", "judge", "candidate", "device", "seed", "confirms", "tuning"],
)
def test_another_result_does_not_count(task: Task, tmp_path: Path, change: Any, why: str) -> None:
    folder = put(tmp_path, task, VECTOR)
    job = read_job(folder)
    result = result_for(job, VECTOR)
    write_result(folder, result.model_copy(update=change(result)))
    with pytest.raises(Unreadable, match=f"cannot be used: .*{why}"):
        result_of(folder, job)


def test_half_a_result_does_not_count(task: Task, tmp_path: Path) -> None:
    folder = put(tmp_path, task, VECTOR)
    job = read_job(folder)
    write_result(folder, result_for(job, VECTOR))
    text = (folder / RESULT).read_text()
    (folder / RESULT).write_text(text[: len(text) // 2])
    with pytest.raises(Unreadable, match="is not a result"):
        result_of(folder, job)
    with full_disk(100), pytest.raises(MissingDependency, match="cannot write"):
        replace(folder / RESULT, text)
    assert sorted(path.name for path in folder.iterdir()) == ["job.json", RESULT]
    replace(folder / REFUSED, "{")
    assert refusal_of(folder) is None


def test_a_worker_that_does_not_fit_says_why(task: Task) -> None:
    assert misfit(job_of(task), DEVICE) == ""
    gpu = wanted_device("cuda", "h100")
    assert "asks for virtual GPU" in misfit(job_of(task), gpu) and "has NVIDIA H100" in misfit(
        job_of(task), gpu
    )
    other = misfit(job_of(task, judge_sha256=64 * "a"), DEVICE)
    assert "the judge aaaaaaaaaaaa" in other and "same version" in other
