"""The worker judges what it may, refuses the rest with a line, and no job twice."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from astra_chat.detached.claims import Claims, JobClaim
from astra_chat.detached.jobs import CLOSED, JOB, TEXTS, read_job
from astra_chat.detached.results import RESULT, refusal_of, result_of
from astra_chat.detached.worker import work_on
from astra_chat.tools.system.devices import virtual_device, wanted_device
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import BuildFailed, Case, Device, Refused
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.job_samples import REFUSED_BY_GUARD, job_of, put, worker
from tests.astra_chat.test_kill import Events
from tests.chat_samples import KERNELS, VECTOR, WIDE_TOML
from tests.full_disk import full_disk
from tests.tools.tuning.test_tuning_judge import SLOW

LARGE = Case(dims={"rows": 4096, "d": 4096}, dtype="float32")


@pytest.mark.second_tier
def test_a_job_is_judged_with_its_own_seed(task: Task, tmp_path: Path) -> None:
    """The real judge works from files alone: the task's folder is gone."""
    folder = put(tmp_path / "run" / "jobs", task, KERNELS["broken.cu"])
    task.folder.rename(tmp_path / "gone")
    one, lines = worker()
    assert one.work([tmp_path])["judged"] == 1 and len(lines) == 1 and "does not build" in lines[0]
    result = result_of(folder, read_job(folder))
    assert result is not None and isinstance(result.evaluation.outcome, BuildFailed)
    assert result.evaluation.seed == read_job(folder).seed
    assert result.worker == one.name and "astra" in result.versions
    assert one.work([tmp_path])["judged"] == 0
    assert {path.name for path in folder.iterdir()} == {JOB, RESULT}


@pytest.mark.second_tier
def test_a_tuning_is_a_job(task: Task, tmp_path: Path) -> None:
    folder = put(tmp_path / "jobs", task, SLOW, tune={"points": 4, "measured": 2})
    open_ended = put(tmp_path / "jobs", task, VECTOR, tune={"points": 4, "measured": 2})
    one, lines = worker()
    assert one.work([tmp_path]) == {"judged": 1, "refused": 1, "claimed": 0, "failed": 0}
    result = result_of(folder, read_job(folder))
    assert result is not None and isinstance(result.found, Tuning)
    assert result.found.best == {"kBlocks": 256, "kThreads": 64}
    refusal = refusal_of(open_ended)
    assert refusal is not None and "marks no constant for tuning" in refusal.why
    assert any("points ranked on the virtual GPU" in line for line in lines)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"judge_sha256": 64 * "a"}, "asks for the judge aaaaaaaaaaaa"),
        ({"device": wanted_device("cuda", "h100")}, "asks for NVIDIA H100 80GB HBM3"),
        ({"extra_cases": [LARGE.model_dump()]}, "are too many for a check"),
        ({"extra_cases": [{"dims": {"rows": 1}, "dtype": "float32"}]}, "d"),
        ({"extra_cases": [LARGE.model_dump()] * 300}, "it has 300 cases; at most"),
        ({"task_files": {}}, "task.toml"),
    ],
    ids=["judge", "device", "large case", "illegal case", "many cases", "no task"],
)
def test_what_cannot_be_judged_is_refused_and_the_worker_goes_on(
    task_folder: Path, tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    (task_folder / "task.toml").write_text(WIDE_TOML)
    task = load_task(task_folder)
    changes = {n: v.model_dump() if isinstance(v, Device) else v for n, v in changes.items()}
    bad, good = put(tmp_path / "a" / "jobs", task, **changes), put(tmp_path / "b" / "jobs", task)
    one, lines = worker()
    assert one.work([tmp_path]) == {"judged": 1, "refused": 1, "claimed": 0, "failed": 0}
    assert result_of(good, read_job(good)) is not None and not (bad / RESULT).exists()
    refusal = refusal_of(bad)
    assert refusal is not None and why in refusal.why and refusal.worker == one.name
    assert len(lines) == 2 and not any("\n" in line for line in lines)
    assert one.work([tmp_path]) == {"judged": 0, "refused": 0, "claimed": 0, "failed": 0}


def test_names_that_lead_out_of_the_folder_are_refused(task: Task, tmp_path: Path) -> None:
    files = {"../x.py": job_of(task).source}
    bad = put(tmp_path / "jobs", task, task_files=files)
    one, _ = worker()
    assert one.work([tmp_path])["refused"] == 1
    refusal = refusal_of(bad)
    assert refusal is not None and "points outside its folder" in refusal.why


def test_forged_and_cut_off_jobs_are_refused(task: Task, tmp_path: Path) -> None:
    box = tmp_path / "jobs"
    cut, forged, text = (put(box, task, number=number) for number in range(3))
    good = put(box, task, f"{REFUSED_BY_GUARD}// another\n")
    (cut / JOB).write_text((cut / JOB).read_text()[:100])
    (forged / JOB).write_text((text / JOB).read_text())
    (box / TEXTS / f"{read_job(text).source}.txt").write_text("// another\n")
    one, _ = worker()
    assert one.work([tmp_path]) == {"judged": 1, "refused": 3, "claimed": 0, "failed": 0}
    assert (good / RESULT).exists()
    why = [refusal.why for folder in (cut, forged, text) if (refusal := refusal_of(folder))]
    assert "is not a job" in why[0] and "its hash does not match the name" in why[1]
    assert "was changed: its hash does not match its name" in why[2]


def test_any_gpu_with_constants_is_estimated_for(task: Task, tmp_path: Path) -> None:
    folder = put(tmp_path / "jobs", task, device=virtual_device("a100").model_dump())
    one, _ = worker()
    assert one.work([tmp_path])["judged"] == 1
    result = result_of(folder, read_job(folder))
    assert result is not None and result.evaluation.device.spec == "a100"


def test_closed_and_claimed_jobs_are_left_alone(task: Task, tmp_path: Path) -> None:
    closed, claimed = put(tmp_path / "jobs", task), put(tmp_path / "jobs", task, number=1)
    (closed / CLOSED).touch()
    with_it = Claims().take(claimed)
    assert isinstance(with_it, JobClaim)
    one, lines = worker()
    assert one.work([tmp_path]) == {"judged": 0, "refused": 0, "claimed": 1, "failed": 0}
    assert f"is being judged by {one.name}" in lines[0]
    with with_it:
        pass
    assert one.work([tmp_path])["judged"] == 1


def test_a_result_that_does_not_count_is_made_again(task: Task, tmp_path: Path) -> None:
    folder = put(tmp_path / "jobs", task)
    (folder / RESULT).write_text("{")
    one, lines = worker()
    assert one.work([tmp_path])["judged"] == 1
    assert "result.json is not a result" in lines[0] and "judging it again" in lines[0]
    assert result_of(folder, read_job(folder)) is not None


def test_a_full_disk_is_one_line_and_the_job_stays_open(task: Task, tmp_path: Path) -> None:
    folder = put(tmp_path / "jobs", task)
    one, lines = worker()
    one.versions = {"astra": 20_000 * "x"}
    with full_disk(10_000):
        assert one.work([tmp_path])["failed"] == 1
    assert len(lines) == 1 and "cannot write" in lines[0] and "\n" not in lines[0]
    assert {path.name for path in folder.iterdir()} == {JOB}
    assert worker()[0].work([tmp_path])["judged"] == 1


def test_it_waits_for_jobs_to_come(task: Task, tmp_path: Path) -> None:
    tmp_path.joinpath("run").mkdir()
    one, lines = worker()
    ended, judged = threading.Event(), threading.Event()
    one.say = lambda line: (lines.append(line), judged.set())[0]
    waiting = threading.Thread(target=work_on, args=(one, [tmp_path], ended))
    waiting.start()
    folder = put(tmp_path / "run" / "jobs", task)
    assert judged.wait(60)
    ended.set()
    waiting.join(60)
    assert (folder / RESULT).exists() and not waiting.is_alive()
    with pytest.raises(BadInput, match="not a folder"):
        one.work([tmp_path / "nowhere"])


def in_child(work: Any) -> int:
    """Process number of a child that does the work."""
    if (child := os.fork()) != 0:
        return child
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def test_two_workers_judge_no_job_twice(task: Task, tmp_path: Path) -> None:
    folders = [put(tmp_path / "jobs", task, number=number) for number in range(12)]

    def work(name: str) -> None:
        one, lines = worker()
        while one.work([tmp_path])["claimed"]:
            pass
        (tmp_path / name).write_text("\n".join(lines))

    children = [in_child(lambda name=name: work(name)) for name in ("one", "other")]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    assert all((folder / RESULT).exists() for folder in folders)
    lines = [line for n in ("one", "other") for line in (tmp_path / n).read_text().splitlines()]
    judged = [line.split()[1] for line in lines if "candidate" in line]
    assert sorted(judged) == sorted(f"{folder.name[:12]}:" for folder in folders)


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.second_tier)])
def test_a_killed_worker_loses_nothing(task: Task, tmp_path: Path, kills: int) -> None:
    """SIGKILL at any point: the next worker takes the job over, and its result counts."""

    def work() -> None:
        worker()[0].work([tmp_path])

    put(tmp_path / "jobs", task)
    with Events() as events:
        work()
    dice = random.Random(20261123)
    for number in range(kills):
        folder = put(tmp_path / "jobs", task, number=number + 1)
        child = os.fork()
        if child == 0:
            with Events(dice.randrange(events.count)):
                work()
            os._exit(0)
        os.waitpid(child, 0)
        work()
        result = result_of(folder, read_job(folder))
        assert result is not None and isinstance(result.evaluation.outcome, Refused)
