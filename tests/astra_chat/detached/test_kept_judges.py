"""A worker's judges serve all jobs of a session, each with the job's own seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.detached.jobs import read_job
from astra_chat.detached.results import result_of
from astra_chat.detached.worker import MOST_JUDGES
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Correct, Timed
from tests.astra_chat.job_samples import put, worker
from tests.chat_samples import VECTOR

CASES, OTHER = "0123456789ab", "ba9876543210"


def seed(number: int, cases: str = CASES) -> str:
    return f"{cases}-{number:016x}"


def test_jobs_of_a_session_have_one_judge_and_their_own_seeds(task: Task, tmp_path: Path) -> None:
    box = tmp_path / "jobs"
    folders = [put(box, task, number=number, seed=seed(number)) for number in range(3)]
    one, _ = worker()
    assert one.look_once([tmp_path])["judged"] == 3
    ((judge, _),) = one.judges._kept.values()
    assert judge.task.folder.is_dir()
    for number, folder in enumerate(folders):
        result = result_of(folder, read_job(folder))
        assert result is not None and result.evaluation.seed == seed(number)
    one.judges.close()
    assert not one.judges._kept and not judge.task.folder.exists()


def test_others_have_their_own_and_few_are_kept(task: Task, tmp_path: Path) -> None:
    box, one = tmp_path / "jobs", worker()[0]
    for number, (cases, run) in enumerate([(CASES, "a"), (OTHER, "a"), (OTHER, "b")]):
        put(box, task, number=number, seed=seed(number, cases), run=run)
        assert one.look_once([tmp_path])["judged"] == 1
        assert len(one.judges._kept) == min(number + 1, MOST_JUDGES)
    one.judges.close()


def test_what_is_refused_leaves_no_judge(task: Task, tmp_path: Path) -> None:
    wrong = [{"dims": {"rows": 1}, "dtype": "float32"}]
    put(tmp_path / "jobs", task, extra_cases=wrong)
    one, _ = worker()
    assert one.look_once([tmp_path])["refused"] == 1 and not one.judges._kept


@pytest.mark.second_tier
def test_a_kept_judge_finds_what_a_new_one_does(task: Task, tmp_path: Path) -> None:
    found = []
    for place, looks in (("kept", [0, 1]), ("new", [1])):
        one, lines = worker()
        for number in looks:
            text = VECTOR if number else f"{VECTOR}// another\n"
            folder = put(tmp_path / place / "jobs", task, text, number=number, seed=seed(number))
            assert one.look_once([tmp_path / place])["judged"] == 1, lines
        result = result_of(folder, read_job(folder))
        assert result is not None and isinstance(result.evaluation.outcome, Timed | Correct)
        found.append(result.evaluation.model_copy(update={"steps": ()}))
        one.judges.close()
    assert found[0] == found[1]
