"""The rate of a worker's evaluations: jobs that a worker reads, and what their results say."""

from __future__ import annotations

from pathlib import Path

from astra_chat.detached.jobs import folders_under, read_job, read_texts
from astra_chat.tools.entropy import EVALUATION
from astra_chat.tools.system.devices import pick_device
from lab.evaluations_a_minute import rate, write_jobs


def test_its_jobs_are_what_a_worker_reads(tmp_path: Path) -> None:
    """In turns of tasks, each with a seed of its own, also where a winner comes again."""
    device = pick_device("virtual")
    names = ("silu_and_mul", "topk_softmax")
    assert write_jobs(tmp_path, names, device, 12) == 24
    jobs = {folder: read_job(folder) for folder in folders_under([tmp_path])}
    assert len(jobs) == 24
    assert [job.task for job in sorted(jobs.values(), key=lambda job: job.number)] == [*names] * 12
    assert len({job.seed for job in jobs.values()}) == 24
    for folder, job in jobs.items():
        assert EVALUATION.fullmatch(job.seed) and job.device == device
        assert read_texts(folder, job).keys() == job.texts


def test_the_rate_leaves_the_start_out() -> None:
    assert rate([100.0, 110.0, 130.0]) == "3 evaluations, 4.0 a minute from the first to the last"
    assert rate([100.0]) == "1 evaluations: too few for a rate"
    assert rate([]) == "0 evaluations: too few for a rate"
