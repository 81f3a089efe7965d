"""Jobs carried to a host and back: the real command there, and what can go wrong on the way."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from astra_chat.detached.carrying import (
    HOST_LIMIT_S,
    Carrier,
    Destination,
    NotJudged,
    carrier_for,
    place_of,
    why_failed,
)
from astra_chat.detached.claims import Claims, JobClaim
from astra_chat.detached.jobs import folders_in, read_job
from astra_chat.detached.results import RESULT, refusal_of, result_of
from astra_chat.tools.system.subprocesses import Cancelled, Stop
from astra_chat.tools.task.folder import Task
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.job_samples import put
from tests.astra_chat.remote_samples import stand_in

BOX = Carrier(Destination("ssh", "gpu@box"), "virtual")


def carry(folder: Path, stop: Stop | None = None) -> None:
    BOX.judge(folder, read_job(folder), stop or Stop())


@pytest.mark.parametrize("judge", ["local", "detached", "sshd:box", "elsewhere"])
def test_what_is_no_place(judge: str) -> None:
    assert place_of(judge) is None


def test_places() -> None:
    assert place_of("ssh:ada@box") == Destination("ssh", "ada@box")
    assert place_of("ray") == Destination("ray") and str(Destination("ray")) == "ray"
    assert str(place_of("ray:10.0.0.1:6379")) == "ray:10.0.0.1:6379"


@pytest.mark.parametrize(
    "judge", ["ssh", "ssh:", "ssh:-oProxyCommand=x", "ssh:a b", "ray:", "ray:;"]
)
def test_a_host_is_no_option_and_no_command(judge: str) -> None:
    with pytest.raises(BadInput, match=r"give an? "):
        place_of(judge)


def test_the_command_of_a_host() -> None:
    words = BOX.place.command("cuda", True, {})
    assert words[0] == "ssh" and words[-2] == "gpu@box"
    assert words[-1] == "astra-chat judge answer --device cuda --trust"
    env = {"ASTRA_SSH": "ssh -p 2222 -J 'a b'", "ASTRA_SSH_REMOTE": "cd astra && .venv/bin/astra"}
    words = BOX.place.command("cuda", False, env)
    assert words[:5] == ["ssh", "-p", "2222", "-J", "a b"]
    assert words[-1] == "cd astra && .venv/bin/astra judge answer --device cuda"


def test_ray_is_asked_for_the_gpu_and_a_host_for_its_device() -> None:
    assert carrier_for(Destination("ray"), "cuda", "h200", False).device == "h200"
    assert carrier_for(Destination("ray"), "virtual", "h200", False).device == "virtual"
    assert carrier_for(Destination("ssh", "box"), "cuda", "h200", False).device == "cuda"


def test_a_host_has_a_limit_and_ray_has_its_own() -> None:
    assert carrier_for(Destination("ssh", "box"), "cuda", "h200", False).limit_s == HOST_LIMIT_S
    assert carrier_for(Destination("ray"), "cuda", "h200", False).limit_s == math.inf


def test_a_job_is_judged_on_a_host(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's judge starts, judges and sends its result; another job of the run stays here."""
    log = stand_in(tmp_path, monkeypatch)
    box = tmp_path / "jobs"
    folder, other, told = put(box, task), put(box, task, number=1), list[str]()
    BOX.judge(folder, read_job(folder), Stop(), told.append)
    assert [line for line in told if ": doubled, candidate" in line] == told[-1:]
    found = result_of(folder, read_job(folder))
    assert found is not None and found.evaluation.outcome.kind == "refused"
    assert log.read_text() == "gpu@box\n" and not (other / RESULT).exists()
    assert len(folders_in(box)) == 2
    claim = Claims().take(folder)
    assert isinstance(claim, JobClaim), "it was released"


@pytest.mark.second_tier
def test_the_hosts_refusal_comes_back(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch)
    folder = put(tmp_path / "jobs", task, judge_sha256=64 * "a")
    carry(folder)
    refusal = refusal_of(folder)
    assert refusal is not None and "use the same version on both machines" in refusal.why


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (
            "echo 'connect to host box port 22: Connection refused' >&2; exit 255",
            r"^ssh:gpu@box: connect to host box port 22: Connection refused$",
        ),
        ("exit 7", r"^ssh:gpu@box: it ended with exit code 7$"),
        ("kill -9 $$", r"^ssh:gpu@box: it was killed by signal 9$"),
        ("echo Welcome; exit 0", "sent no results: .*not a job archive"),
        ("exit 0", "sent no results: .*not a job archive"),
    ],
)
def test_a_host_that_fails_leaves_the_job_open(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, words: str
) -> None:
    stand_in(tmp_path, monkeypatch, first)
    folder = put(tmp_path / "jobs", task)
    with pytest.raises(NotJudged, match=words):
        carry(folder)
    assert not (folder / RESULT).exists() and refusal_of(folder) is None


@pytest.mark.parametrize(
    ("place", "told", "code", "words"),
    [
        ("ssh", "Warning\nastra-chat: no GPU\nbye\n", 3, "no GPU"),
        ("ssh", "a\nb\n\n", 255, "b"),
        ("ray", "astra-chat: attempt 1 is lost\nastra-chat: no cluster\n", 3, "no cluster"),
        (
            "ray",
            "astra-chat: attempt 1 is lost\nGCS\nwas killed\n",
            1,
            "the connection to the cluster was lost, or its client was killed (exit code 1)",
        ),
    ],
)
def test_why_it_failed_is_one_line(
    place: Literal["ssh", "ray"], told: str, code: int, words: str
) -> None:
    assert why_failed(Destination(place), told, code) == words


def test_no_ssh_here(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTRA_SSH", "no-such-ssh")
    with pytest.raises(NotJudged, match=r"^ssh:gpu@box: no-such-ssh: No such file"):
        carry(put(tmp_path / "jobs", task))


@pytest.mark.second_tier
def test_a_result_of_another_job_does_not_count(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that sends what it judged before."""
    sent = tmp_path / "sent"
    stand_in(tmp_path, monkeypatch, f'sh -c "$2" >{sent}; cat {sent}; exit 0')
    carry(put(tmp_path / "a" / "jobs", task))
    stand_in(tmp_path, monkeypatch, f"cat {sent}; exit 0")
    other = put(tmp_path / "b" / "jobs", task, number=1)
    with pytest.raises(NotJudged, match="sent no result for this job"):
        carry(other)
    assert not (other / RESULT).exists() and len(folders_in(other.parent)) == 1


def test_a_job_that_another_worker_has_is_not_sent(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = stand_in(tmp_path, monkeypatch)
    folder = put(tmp_path / "jobs", task)
    claim = Claims().take(folder)
    assert isinstance(claim, JobClaim)
    with claim, pytest.raises(NotJudged, match="it is being judged by"):
        carry(folder)
    assert not log.exists()


def test_a_host_that_hangs_is_given_up(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = tmp_path / "ended"
    stand_in(tmp_path, monkeypatch, f"cat >/dev/null; echo >{ended}; exit 1")
    folder = put(tmp_path / "jobs", task)
    with pytest.raises(NotJudged, match=r"^ssh:gpu@box sent no results within 1 s$"):
        replace(BOX, limit_s=1.0).judge(folder, read_job(folder), Stop())
    assert ended.exists() and not (folder / RESULT).exists()
    assert isinstance(Claims().take(folder), JobClaim), "it was released"


def test_stopping_the_run_ends_the_command(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end of the pipe is closed, by which the judge over there ends, too."""
    ended, began = tmp_path / "ended", tmp_path / "began"
    stand_in(tmp_path, monkeypatch, f"echo >{began}; cat >/dev/null; echo >{ended}; exit 1")
    stop, failures = Stop(), list[BaseException]()

    def judge() -> None:
        try:
            carry(folder, stop)
        except BaseException as error:
            failures.append(error)

    folder = put(tmp_path / "jobs", task)
    thread = threading.Thread(target=judge)
    thread.start()
    while not began.exists():
        thread.join(0.01)
    stop.set()
    thread.join(60)
    assert [type(error) for error in failures] == [Cancelled] and ended.exists()
