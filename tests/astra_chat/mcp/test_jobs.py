"""Evaluations in the background: one at a time, stopped at any moment, failures in one line."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from astra_chat.mcp.jobs import ENDED, MAX_JOBS, Jobs, JobStatus
from astra_vgpu.ground.errors import BadInput
from tests.chat_samples import VECTOR, WRONG


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    made = Jobs()
    yield made
    made.close()


def begin(jobs: Jobs, task: Path, source: str = VECTOR, **options: object) -> JobStatus:
    return jobs.begin(source, [], False, task=task, **{"device": "virtual", **options})


def ended(jobs: Jobs, job: str) -> JobStatus:
    deadline = time.monotonic() + 900
    while (status := jobs.status(job)).state not in ENDED:
        assert time.monotonic() < deadline, status
        time.sleep(0.05)
    return status


@pytest.mark.second_tier
def test_kernels_are_evaluated_one_after_the_other(jobs: Jobs, task_folder: Path) -> None:
    first, second = begin(jobs, task_folder), begin(jobs, task_folder, WRONG)
    assert first.state == second.state == "queued" and first.exit_code is None
    done = ended(jobs, first.job)
    assert (done.state, done.verdict, done.exit_code) == ("done", "accepted", 0)
    assert "warps_on_busiest_sm" in done.report and done.error == done.progress == ""
    wrong = ended(jobs, second.job)
    assert (wrong.state, wrong.verdict, wrong.exit_code) == ("done", "wrong", 1)
    found = jobs.found(first.job)
    assert found is not None and found.report == done.report


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"task": "no_such_task"}, "no task 'no_such_task'"),
        ({"device": "tpu"}, "tpu"),
        ({"cases": "some"}, "there are no cases named 'some'"),
    ],
)
def test_bad_input_is_the_line_of_the_command(
    jobs: Jobs, task_folder: Path, options: dict[str, str], said: str
) -> None:
    words = {"task": task_folder, **options}
    status = ended(jobs, begin(jobs, words.pop("task"), **words).job)  # type: ignore[arg-type]
    assert (status.state, status.exit_code) == ("failed", 2)
    assert said in status.error and len(status.error.splitlines()) == 1


def test_one_that_runs_and_one_that_waits_are_stopped(jobs: Jobs, task_folder: Path) -> None:
    first, second = begin(jobs, task_folder), begin(jobs, task_folder)
    assert jobs.cancel(second.job).state == "cancelled"
    jobs.cancel(first.job)
    status = ended(jobs, first.job)
    assert (status.state, status.exit_code, status.error) == ("cancelled", 130, "cancelled")
    assert jobs.cancel(first.job).state == "cancelled"
    assert jobs.found(first.job) is None


def test_nothing_is_left_after_the_end(task_folder: Path) -> None:
    jobs = Jobs()
    begun = [begin(jobs, task_folder) for _ in range(3)]
    jobs.close()
    assert {jobs.status(one.job).state for one in begun} == {"cancelled"}
    assert not [one for one in threading.enumerate() if one.name.startswith("astra-evaluation")]


def test_an_unknown_job_is_said(jobs: Jobs) -> None:
    with pytest.raises(BadInput, match="no evaluation 'x' here: start one with `evaluate`"):
        jobs.status("x")


def test_old_ones_are_forgotten(jobs: Jobs) -> None:
    names = [begin(jobs, Path("nowhere")).job for _ in range(MAX_JOBS)]
    ended(jobs, names[-1])
    begin(jobs, Path("nowhere"))
    with pytest.raises(BadInput):
        jobs.status(names[0])
    assert jobs.status(names[1]).state == "failed"
