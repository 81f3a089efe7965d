"""The judge of a run that asks by jobs: the same request is the same job, taken once."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.detached.asking import DetachedJudge, WaitsForJudge
from astra_chat.detached.jobs import CLOSED, JOB, TuneRequest, folders_in, read_job
from astra_chat.detached.results import RESULT, Result, write_refusal, write_result
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.evaluation import Built
from astra_chat.tools.system.devices import wanted_device
from astra_chat.tools.task.folder import Task
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.tuning.tuning_judge import TuningJudge
from astra_chat.tools.types import BuildFailed, Case
from astra_vgpu.ground.errors import BadInput, MissingDependency
from tests.astra_chat.job_samples import answer
from tests.chat_samples import DEVICE, KERNELS, SCALAR, VECTOR, evaluation
from tests.full_disk import full_disk
from tests.tools.tuning.test_tuning_judge import SLOW

CASE = Case(dims={"rows": 7, "d": 12}, dtype="float32")


def session(task: Task, folder: Path, judged: int = 0, seed: str = "5eed") -> DetachedJudge:
    """The judge of a session of the run in a folder."""
    judge = DetachedJudge(TuningJudge(task, DEVICE, entropy=Entropy(seed)), None, judged)
    judge.begin(folder, "run-1")
    return judge


def asked(judge: DetachedJudge, source: str, *cases: Case, fresh_seeds: bool = False) -> Path:
    """The folder of the job that it waits for."""
    with pytest.raises(WaitsForJudge) as waits:
        judge.evaluate(source, cases, fresh_seeds=fresh_seeds)
    assert str(waits.value).startswith(f"waiting for the judge: job {waits.value.folder.name[:12]}")
    return waits.value.folder


def test_a_session_finds_the_job_of_the_one_before_and_takes_its_result(
    task: Task, tmp_path: Path
) -> None:
    folder = asked(session(task, tmp_path), SCALAR, CASE)
    job = read_job(folder)
    assert (job.run, job.number, job.task, job.extra_cases) == ("run-1", 0, "doubled", (CASE,))
    assert job.seed == Entropy("5eed").evaluation(job.source[:12]).text
    assert asked(session(task, tmp_path, seed="07e4"), SCALAR, CASE) == folder
    answer(folder)
    later = session(task, tmp_path, seed="07e4")
    found = later.evaluate(SCALAR, [CASE])
    assert found.outcome == evaluation(SCALAR, found.outcome).outcome and found.seed == job.seed
    again = read_job(asked(later, SCALAR, CASE))
    assert again.number == 1, "the same source once more is another job"
    assert again.seed == Entropy("07e4").evaluation(job.source[:12]).text


def test_another_request_is_another_job_and_closes_the_first(task: Task, tmp_path: Path) -> None:
    """A killed session's models may have said something else the second time."""
    first = asked(session(task, tmp_path), SCALAR)
    other = asked(session(task, tmp_path), VECTOR, fresh_seeds=True)
    assert read_job(other).fresh_seeds
    assert (first / CLOSED).exists() and not (other / CLOSED).exists()
    assert asked(session(task, tmp_path), SCALAR) == first
    assert not (first / CLOSED).exists()


def test_what_was_changed_is_asked_for_again(task: Task, tmp_path: Path) -> None:
    first = asked(session(task, tmp_path), SCALAR)
    (first / JOB).write_text("{")
    second = asked(session(task, tmp_path, seed="07e4"), SCALAR)
    assert second != first and folders_in(tmp_path / "jobs") == sorted([first, second])


@pytest.mark.second_tier
def test_it_says_what_is_wrong(task: Task, tmp_path: Path) -> None:
    folder = asked(session(task, tmp_path), SCALAR)
    write_refusal(folder, "it asks for another GPU", "box:1")
    with pytest.raises(WaitsForJudge, match="; refused by box:1: it asks for another GPU"):
        session(task, tmp_path).evaluate(SCALAR)
    (folder / RESULT).write_text("{}")
    with pytest.raises(WaitsForJudge, match=r"; result\.json is not a result"):
        session(task, tmp_path).evaluate(SCALAR)
    with full_disk(100), pytest.raises(MissingDependency, match="cannot write"):
        session(task, tmp_path).evaluate(VECTOR)


def test_constants_are_tuned_where_the_gpu_is(task: Task, tmp_path: Path) -> None:
    """Tuning is a job of its own, which is no evaluation and takes none's seed."""
    local = TuningJudge(task, wanted_device("cuda", "h200"), entropy=Entropy("5eed"))
    judge = DetachedJudge(local, None, 3)
    judge.begin(tmp_path, "run-1")
    with pytest.raises(BadInput, match="marks no constant for tuning"):
        judge.tune(VECTOR, 8, 4)
    with pytest.raises(WaitsForJudge) as waits:
        judge.tune(SLOW, 8, 4)
    folder, job = waits.value.folder, read_job(waits.value.folder)
    assert job.tune == TuneRequest(points=8, measured=4) and job.number == 3
    found = Tuning(
        candidate=job.source[:12],
        combinations=4,
        points=(),
        start={},
        best={"kBlocks": 256},
        seconds=1.0,
    )
    result = Result(
        schema="astra-chat/job-result/2",
        job=job.sha256,
        judge_sha256=job.judge_sha256,
        worker="gpu-box:7",
        versions={},
        found=found,
    )
    write_result(folder, result)
    assert judge.tune(SLOW, 8, 4) == found
    after = read_job(asked(judge, SLOW))
    assert after.number == 3 and after.tune is None
    assert after.seed == Entropy("5eed").evaluation(job.source[:12]).text != job.seed


@pytest.mark.second_tier
def test_builds_and_scores_stay_here(task: Task, tmp_path: Path) -> None:
    with session(task, tmp_path) as judge:
        assert isinstance(judge.build(KERNELS["broken.cu"]).result, BuildFailed)
        assert isinstance(judge.build(VECTOR).result, Built)
        assert judge.score([CASE], 0).cases[0].case == CASE
    assert not (tmp_path / "jobs").exists()
