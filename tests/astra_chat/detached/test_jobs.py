"""Jobs: by value, named by their hash, whole or not there, and nothing else under their name."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from astra_chat.detached.jobs import (
    JOB,
    TEXTS,
    folders_in,
    folders_under,
    read_job,
    read_texts,
    write_job,
)
from astra_chat.mailbox.files import Unreadable
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, sha256_of
from astra_vgpu.ground.errors import BadInput, MissingDependency
from tests.astra_chat.job_samples import REFUSED_BY_GUARD, job_of, put
from tests.full_disk import full_disk

CASE = Case(dims={"rows": 7, "d": 12}, dtype="float32", scalars={"scale": 0.1})


def test_a_job_is_read_as_it_was_written(task: Task, tmp_path: Path) -> None:
    folder = put(tmp_path / "jobs", task, extra_cases=[CASE.model_dump()])
    job = read_job(folder)
    assert job.extra_cases == (CASE,) and folder.name == job.sha256
    texts = read_texts(folder, job)
    assert texts[job.source] == REFUSED_BY_GUARD
    assert {texts[sha] for sha in job.task_files.values()} == set(task.files().values())
    assert put(tmp_path / "jobs", task, extra_cases=[CASE.model_dump()]) == folder
    assert folders_in(tmp_path / "jobs") == [folder]


@pytest.mark.parametrize(
    "changes",
    [
        {"number": 1},
        {"fresh_seeds": True},
        {"timed": "bench"},
        {"engine": "c"},
        {"seed": "0123456789ab-0000000000000000"},
        {"judge_sha256": 64 * "0"},
        {"run": "run-2"},
    ],
    ids=str,
)
def test_whatever_decides_the_result_is_in_its_name(task: Task, changes: dict[str, Any]) -> None:
    one, other = job_of(task), job_of(task, **changes)
    assert one.sha256 != other.sha256
    assert one.asks_the_same(other) == ("seed" in changes)


@pytest.mark.parametrize("length", [0, 1, 200, -2])
def test_a_job_that_is_cut_off_is_none(task: Task, tmp_path: Path, length: int) -> None:
    path = put(tmp_path, task) / JOB
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(Unreadable, match=r"job\.json is not a job") as caught:
        read_job(path.parent)
    assert "\n" not in str(caught.value)


def test_a_forged_job_is_none(task: Task, tmp_path: Path) -> None:
    path = put(tmp_path, task) / JOB
    forged = {**json.loads(path.read_text()), "seed": "0123456789ab-00000000000000ff"}
    path.write_text(json.dumps(forged))
    with pytest.raises(Unreadable, match="its hash does not match the name of its folder"):
        read_job(path.parent)
    path.unlink()
    with pytest.raises(Unreadable, match="missing"):
        read_job(path.parent)
    path.symlink_to("/etc/hostname")
    with pytest.raises(Unreadable, match="a link"):
        read_job(path.parent)


def test_a_text_that_is_not_its_hash_is_refused_and_written_again(
    task: Task, tmp_path: Path
) -> None:
    folder = put(tmp_path, task)
    job, source = read_job(folder), sha256_of(REFUSED_BY_GUARD)
    path = tmp_path / TEXTS / f"{source}.txt"
    path.write_text("// another\n")
    with pytest.raises(Unreadable, match="was changed"):
        read_texts(folder, job)
    path.unlink()
    with pytest.raises(Unreadable, match="is missing"):
        read_texts(folder, job)
    put(tmp_path, task)
    assert read_texts(folder, job)[source] == REFUSED_BY_GUARD


def test_jobs_are_found_at_any_depth_and_links_are_not_followed(task: Task, tmp_path: Path) -> None:
    deep = put(tmp_path / "a" / "b" / "run" / "jobs", task)
    other = put(tmp_path / "jobs", task, number=1)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "jobs" / (64 * "0")).symlink_to(deep)
    (tmp_path / "jobs" / "notes").mkdir()
    assert set(folders_under([tmp_path, tmp_path / "a"])) == {deep, other}
    assert list(folders_under([deep.parent])) == [deep]
    with pytest.raises(BadInput, match="is not a folder"):
        list(folders_under([tmp_path / "nowhere"]))


def test_on_a_full_disk_nothing_is_left_of_a_job(task: Task, tmp_path: Path) -> None:
    texts = {sha256_of(text): text for text in (REFUSED_BY_GUARD, *task.files().values())}
    job = job_of(task)
    with full_disk(600), pytest.raises(MissingDependency, match="cannot write"):
        write_job(tmp_path, job, texts)
    assert folders_in(tmp_path) == [] and not any(p.startswith(".part") for p in names(tmp_path))
    assert read_job(write_job(tmp_path, job, texts)) == job


def names(folder: Path) -> list[str]:
    return [name for _, folders, files in os.walk(folder) for name in (*folders, *files)]
