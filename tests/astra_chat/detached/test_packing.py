"""Jobs and results carried in one file: all of it checked first, nothing under a chosen name."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from astra_chat.detached import packing
from astra_chat.detached.jobs import CLOSED, JOB, folders_under, read_job
from astra_chat.detached.packing import MANIFEST, Carried, pack, unpack
from astra_chat.detached.results import RESULT, TAKEN, refusal_of, result_of, write_refusal
from astra_chat.tools.task.folder import Task
from astra_chat.transcript.archive import sha256_of_bytes, write_zip
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.job_samples import answer, put, worker
from tests.chat_samples import SCALAR
from tests.full_disk import full_disk

Members = dict[str, bytes]


@pytest.fixture
def runs(task: Task, tmp_path: Path) -> Path:
    """Two runs here, one of which waits."""
    answered = put(tmp_path / "runs" / "a" / "jobs", task, SCALAR)
    answer(answered)
    (answered / TAKEN).touch()
    put(tmp_path / "runs" / "b" / "jobs", task)
    return tmp_path / "runs"


def test_there_and_back(runs: Path, task: Task, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    assert pack([runs], tmp_path / "jobs.zip") == Carried(jobs=1)
    assert unpack(tmp_path / "jobs.zip", there) == Carried(jobs=1)
    assert unpack(tmp_path / "jobs.zip", there) == Carried(), "it is there already"
    assert worker()[0].work([there])["judged"] == 1
    assert pack([there], tmp_path / "results.zip") == Carried(results=1)
    assert unpack(tmp_path / "results.zip", runs) == Carried(results=1)
    assert unpack(tmp_path / "results.zip", runs) == Carried()
    (folder,) = folders_under([runs / "b"])
    found = result_of(folder, read_job(folder))
    assert found is not None and found.worker == worker()[0].name
    (there / "else").mkdir()
    left = unpack(tmp_path / "results.zip", there / "else")
    assert (left.jobs, left.results) == (0, 0) and "there is no such job" in left.left_out[0]
    assert list((there / "else").iterdir()) == []


def test_a_folder_is_made_for_jobs_and_may_be_named_jobs(runs: Path, tmp_path: Path) -> None:
    there = tmp_path / "jobs"
    pack([runs], tmp_path / "jobs.zip")
    assert unpack(tmp_path / "jobs.zip", there) == Carried(jobs=1)
    assert worker()[0].work([there])["judged"] == 1
    assert pack([there], tmp_path / "results.zip") == Carried(results=1)
    with pytest.raises(BadInput, match="is not a folder"):
        unpack(tmp_path / "results.zip", tmp_path / "mistyped")
    assert not (tmp_path / "mistyped").exists()


def test_a_refusal_comes_back(runs: Path, task: Task, tmp_path: Path) -> None:
    (folder,) = folders_under([runs / "b"])
    there = tmp_path / "there"
    there.mkdir()
    pack([runs], tmp_path / "jobs.zip")
    unpack(tmp_path / "jobs.zip", there)
    write_refusal(there / "jobs" / folder.name, "no such GPU", "box:1")
    assert pack([there], tmp_path / "back.zip") == Carried(jobs=1, refusals=1)
    assert unpack(tmp_path / "back.zip", runs) == Carried(refusals=1)
    refusal = refusal_of(folder)
    assert refusal is not None and refusal.why == "no such GPU"


def test_equal_jobs_make_an_equal_file_and_what_is_broken_is_named(
    runs: Path, task: Task, tmp_path: Path
) -> None:
    pack([runs], tmp_path / "one.zip")
    pack([runs, runs / "b"], tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    cut, closed = put(runs / "c" / "jobs", task, number=1), put(runs / "c" / "jobs", task, number=2)
    (cut / JOB).write_text("{")
    (closed / CLOSED).touch()
    carried = pack([runs], tmp_path / "three.zip")
    assert carried.jobs == 1 and carried.left_out[0].startswith(f"job {cut.name[:12]}: job.json")
    assert len(carried.left_out) == 1


def forged(file: Path, change: Callable[[Members], None]) -> None:
    """The file with other members, and a manifest that fits them."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    del members[MANIFEST]
    change(members)
    files = {name: sha256_of_bytes(content) for name, content in members.items()}
    manifest = json.dumps({"schema": "astra-chat/jobs/1", "files": files})
    members.setdefault(MANIFEST, manifest.encode())
    write_zip(file, members)


def name_of(members: Members, end: str) -> str:
    return next(name for name in sorted(members) if name.endswith(end))


def other_result(members: Members) -> None:
    members[name_of(members, JOB).replace(JOB, RESULT)] = b'{"job": "another"}'


def other_seed(members: Members) -> None:
    name = name_of(members, JOB)
    members[name] = members[name].replace(b"0123456789ab-", b"ffffffffffff-")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda m: m.update({"../evil.json": b"{}"}), "not part of a job"),
        (lambda m: m.update({"jobs/../../job.json": b"{}"}), "not part of a job"),
        (lambda m: m.update({f"jobs/{64 * 'a'}/{CLOSED}": b""}), "not part of a job"),
        (lambda m: m.update({f"texts/{64 * 'a'}.txt": b"x"}), "does not match"),
        (lambda m: m.update({f"jobs/{64 * 'a'}/{JOB}": b"{}"}), "is not a job"),
        (lambda m: m.update({f"jobs/{64 * 'a'}/{RESULT}": b"{}"}), r"job\.json is missing"),
        (lambda m: m.update({f"jobs/{64 * 'a'}/{JOB}": b"\xff"}), "is not text"),
        (lambda m: m.pop(name_of(m, ".txt")), "which the job names, is missing"),
        (lambda m: m.update({MANIFEST: b"{}"}), "is not a job archive"),
        (
            lambda m: m.update({MANIFEST: b'{"schema": "astra-chat/jobs/1", "files": {}}'}),
            "its members are not the ones listed",
        ),
        (other_seed, "its hash does not match the name of its folder"),
        (other_result, "is not a result"),
    ],
)
def test_what_pack_does_not_make_is_refused_whole(
    runs: Path, tmp_path: Path, change: Callable[[Members], None], why: str
) -> None:
    file, there = tmp_path / "jobs.zip", tmp_path / "there"
    there.mkdir()
    pack([runs], file)
    forged(file, change)
    with pytest.raises(BadInput, match=why) as caught:
        unpack(file, there)
    assert "\n" not in str(caught.value) and str(file) in str(caught.value)
    assert list(there.iterdir()) == [] and not (tmp_path / "evil.json").exists()


def test_a_changed_member_a_torn_file_and_too_much(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "jobs.zip"
    pack([runs], file)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match="is not a job archive"):
        unpack(file, runs)
    with pytest.raises(BadInput, match="cannot read"):
        unpack(tmp_path / "none.zip", runs)
    file.write_bytes(whole)
    monkeypatch.setattr(packing, "MAX_FILE_BYTES", 1000)
    with pytest.raises(BadInput, match="has more than 1,000 bytes"):
        unpack(file, runs)
    monkeypatch.setattr(packing, "MAX_BYTES", 1000)
    with pytest.raises(BadInput, match="pack fewer runs at a time"):
        pack([runs], tmp_path / "large.zip")
    assert not (tmp_path / "large.zip").exists()


def test_a_link_is_not_written_through(runs: Path, tmp_path: Path) -> None:
    pack([runs], tmp_path / "jobs.zip")
    (tmp_path / "victim").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "jobs").symlink_to(tmp_path / "victim")
    with pytest.raises(BadInput, match="is a link"):
        unpack(tmp_path / "jobs.zip", tmp_path / "there")
    assert list((tmp_path / "victim").iterdir()) == []


def test_a_full_disk_leaves_no_half_file(runs: Path, tmp_path: Path) -> None:
    with full_disk(500), pytest.raises(BadInput, match="cannot write"):
        pack([runs], tmp_path / "jobs.zip")
    assert not list(tmp_path.glob("*jobs.zip*"))
