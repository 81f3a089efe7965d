"""A worker of Ray without Ray: leases, two jobs at a time, and no process left behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from astra_chat.detached.jobs import read_job
from astra_chat.detached.packing import pack_job, unpack_job
from astra_chat.detached.ray_worker import GpuWorker, Look, jobs_at_once
from astra_chat.detached.results import result_of
from astra_chat.tools.task.folder import Task
from tests.astra_chat.job_samples import put


def until(happens: Callable[[], bool], limit_s: float = 900.0) -> None:
    end_s = time.monotonic() + limit_s
    while not happens():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def packed(folder: Path) -> bytes:
    pack_job(folder, folder.with_suffix(".zip"))
    return folder.with_suffix(".zip").read_bytes()


@pytest.mark.second_tier
def test_two_jobs_at_a_time_each_under_its_lease(task: Task, tmp_path: Path) -> None:
    folder = put(tmp_path / "jobs", task)
    worker = GpuWorker("virtual", idle_s=None)
    assert worker.free() == 2 and worker.look("one") == Look("unknown")
    assert worker.start("one", packed(folder), trust=False)
    assert not worker.start("two", b"", trust=False, least_free=2), "another was quicker"
    environment = Path(f"/proc/{worker._jobs['one'].process.pid}/environ")
    until(lambda: bool(environment.read_bytes()))  # it is empty while the program is loaded
    assert b"OMP_NUM_THREADS=4" in environment.read_bytes().split(b"\0"), "its share of the cores"
    assert worker.start("two", b"no file of jobs", trust=False)
    assert worker.free() == 0 and not worker.start("three", b"", trust=False)
    assert worker.look("one").state == "running"
    until(lambda: "running" not in (worker.look("one").state, worker.look("two").state))
    assert worker.free() == 2
    failed = worker.look("two")
    assert failed.state == "failed" and "not a job archive" in failed.told
    (tmp_path / "back.zip").write_bytes(worker.look("one").results)
    assert unpack_job(tmp_path / "back.zip", folder, read_job(folder))
    assert result_of(folder, read_job(folder)) is not None
    worker.end("one")
    worker.end("one")
    assert worker.look("one") == Look("unknown")


@pytest.mark.parametrize(("cores", "gpus", "jobs"), [(2, 2, 2), (16, 1, 4), (32, 2, 4), (24, 2, 3)])
def test_as_many_jobs_as_the_cores_have_work_for(cores: float, gpus: int, jobs: int) -> None:
    assert jobs_at_once(cores, gpus) == jobs


@pytest.mark.parametrize("how", ["ended", "nobody looks"])
@pytest.mark.second_tier
def test_a_lease_that_is_over_leaves_no_process(task: Task, tmp_path: Path, how: str) -> None:
    """It is given back, or whoever had it is gone."""
    source = (task.folder / "baseline.cu").read_text() + f"// {tmp_path.name} {how}\n"
    folder = put(tmp_path / "jobs", task, source)
    worker = GpuWorker("virtual", stale_s=1.0 if how == "nobody looks" else 60.0, idle_s=None)
    assert worker.start("one", packed(folder), trust=False)
    job = worker._jobs["one"]
    if how == "ended":
        worker.end("one")
    until(lambda: job.process.poll() is not None)
    until(lambda: not job.path.exists())
    assert worker.look("one") == Look("unknown") and worker.free() == 2
