"""Jobs of the sample task, and one who answers them from fixed findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from astra_chat.detached.jobs import Job, read_job, read_texts, write_job
from astra_chat.detached.results import Result, write_result
from astra_chat.detached.worker import Worker
from astra_chat.tools.judge_version import judge_sha256
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Outcome, sha256_of
from astra_chat.version import __version__
from tests.chat_samples import DEVICE, FixedJudge

REFUSED_BY_GUARD = "// no launcher\n"
"""The real judge needs no compiler to say so."""


def job_of(task: Task, source: str = REFUSED_BY_GUARD, **changes: Any) -> Job:
    """A job about a candidate of the task."""
    job = Job(
        schema="astra-chat/job/2",
        run="run-1",
        number=0,
        task=task.name,
        task_files={name: sha256_of(text) for name, text in task.files().items()},
        tier="sglang",
        timed=None,
        device=DEVICE,
        source=sha256_of(source),
        extra_cases=(),
        fresh_seeds=False,
        seed="0123456789ab-0123456789abcdef",
        judge_sha256=judge_sha256(),
        astra=__version__,
    )
    return Job.model_validate({**job.model_dump(), **changes})


def put(box: Path, task: Task, source: str = REFUSED_BY_GUARD, **changes: Any) -> Path:
    """The folder of such a job, with its texts."""
    texts = {sha256_of(text): text for text in (source, *task.files().values())}
    return write_job(box, job_of(task, source, **changes), texts)


def worker(**changes: Any) -> tuple[Worker, list[str]]:
    """A worker with a virtual GPU, and the lines that it says."""
    lines: list[str] = []
    return Worker(DEVICE, {"astra": __version__}, say=lines.append, **changes), lines


def result_for(job: Job, source: str, outcomes: dict[str, Outcome] | None = None) -> Result:
    """What a worker would leave, by fixed findings."""
    judge = FixedJudge(outcomes)
    found = judge.evaluate(source, job.extra_cases, fresh_seeds=job.fresh_seeds)
    return Result(
        schema="astra-chat/job-result/2",
        job=job.sha256,
        judge_sha256=judge_sha256(),
        worker="gpu-box:7",
        versions={},
        found=found.model_copy(update={"seed": job.seed}),
    )


def answer(folder: Path, outcomes: dict[str, Outcome] | None = None) -> None:
    """Leave that result beside a job."""
    job = read_job(folder)
    write_result(folder, result_for(job, read_texts(folder, job)[job.source], outcomes))
