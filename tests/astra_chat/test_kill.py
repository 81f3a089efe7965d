"""SIGKILL at many points: what is left on the disk continues to the identical end."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import traceback
from pathlib import Path

import pytest

from astra_chat.agents.turns import Turn
from astra_chat.models.open_models import open_models
from astra_chat.session.request import SessionOptions
from astra_chat.session.resume import request_on, resumed
from astra_chat.session.session import run_request
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Outcome
from astra_chat.transcript.reader import read
from astra_chat.transcript.run_folder import TRANSCRIPT
from astra_chat.transcript.turns import turns_of
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import KERNELS, VECTOR, FixedJudge, run_options, story, timed

KILLS = 80
FEW_KILLS = 12
NO_WINNER: dict[str, Outcome] = {VECTOR: timed(1.0, "tie")}
REFUSED: dict[str, Outcome] = {VECTOR: timed(1.9)}
"""A human refuses it. With no winner nothing is exported, which would take a compiler seconds in
every run."""


def hold(task: Task, out: Path, judge: FixedJudge, approver: str | None = None) -> None:
    """Begin a run, or continue with what is left of one."""
    path = out / TRANSCRIPT
    if path.is_file() and path.stat().st_size:
        past = resumed(path)
        request = request_on(past, task, session=SessionOptions(approver=approver))
        run_request(request, judge=judge, past=past)
    else:
        models = open_models("scripted", task)
        options = run_options(mutants=12)
        request = chat_request(task, out, models=models, options=options, approver=approver)
        run_request(request, judge=judge)


class Events:
    """Counts what Python calls and leaves, in all threads, and kills at one of them: a point that
    can be named again, unlike a time."""

    def __init__(self, last: int | None = None) -> None:
        self.count, self._last = 0, last

    def __call__(self, *_: object) -> None:
        self.count += 1
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def __enter__(self) -> Events:
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


def killed(task: Task, out: Path, event: int, approver: str | None) -> bool:
    """Hold the chat in a process of its own and kill it at an event; False if it ended before."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with Events(event):
                hold(task, out, FixedJudge(NO_WINNER if approver is None else REFUSED), approver)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the run itself failed"
    return os.WIFSIGNALED(status)


DECISIONS = """
[[decision]]
answer = "approve"
[[decision]]
answer = "approve"
[[decision]]
answer = "approve"
[[decision]]
answer = "reject"
reason = "not this one"
"""
"""Answers to what is asked before a run, and last about the winner, after it was confirmed."""


@pytest.mark.parametrize("kills", [FEW_KILLS, pytest.param(KILLS, marks=pytest.mark.second_tier)])
@pytest.mark.parametrize("decisions", ["", DECISIONS], ids=["alone", "with a human"])
def test_killed_at_many_points_the_end_is_identical(
    task: Task, tmp_path: Path, decisions: str, kills: int
) -> None:
    approver = None
    if decisions:
        (tmp_path / "d.toml").write_text(decisions)
        approver = str(tmp_path / "d.toml")
    outcomes = REFUSED if decisions else NO_WINNER
    with Events() as events:
        hold(task, tmp_path / "whole", FixedJudge(outcomes), approver)
    whole = story(tmp_path / "whole")
    assert sum('"confirms": true' in line for line in whole) == bool(decisions)
    dice = random.Random(20261121)
    done = finished = 0
    lengths: set[int] = set()
    while done < kills:
        out = tmp_path / str(finished)
        while killed(task, out, dice.randrange(events.count), approver):
            done += 1
            if (out / TRANSCRIPT).is_file() and (out / TRANSCRIPT).stat().st_size:
                lengths.add(len(read(out).records))
                if read(out).ended is not None:
                    break  # between the last line and the exit
        assert story(out) == whole
        finished += 1
    assert len(lengths) >= min(kills // 4, 15), "the kills did not come at many places"


@pytest.mark.parametrize("seed", range(24))
def test_torn_anywhere_the_end_is_identical(task: Task, tmp_path: Path, seed: int) -> None:
    """The file cut at any byte: of a line, between lines, between a source and its turn."""
    hold(task, tmp_path / "whole", FixedJudge(NO_WINNER))
    path = tmp_path / "out" / TRANSCRIPT
    path.parent.mkdir()
    data = (tmp_path / "whole" / TRANSCRIPT).read_bytes()
    head = len(b"".join(data.splitlines(keepends=True)[: 2 + len(task.files())]))
    cut = random.Random(seed).randint(head, len(data) - 1)
    path.write_bytes(data[:cut])
    hold(task, path.parent, FixedJudge(NO_WINNER))
    assert story(path) == story(tmp_path / "whole")
    assert path.read_bytes().startswith(data[: data[:cut].rfind(b"\n") + 1])


def test_torn_in_its_head_nothing_can_go_on(task: Task, tmp_path: Path) -> None:
    hold(task, tmp_path, FixedJudge(NO_WINNER))
    path = tmp_path / TRANSCRIPT
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(BadInput, match="cut off"):
        hold(task, tmp_path, FixedJudge(NO_WINNER))


def test_what_is_counted_is_counted_from_the_thread(task: Task, tmp_path: Path) -> None:
    """Extra cases and repairs of before the kill count after it."""
    hold(task, tmp_path / "whole", FixedJudge(NO_WINNER))
    turns = turns_of(read(tmp_path / "whole").records)
    wrong = next(i for i, turn in enumerate(turns) if _is(turn, KERNELS["wrong.cu"]))
    for lines in range(len((tmp_path / "whole" / TRANSCRIPT).read_text().splitlines())):
        path = tmp_path / "cut" / TRANSCRIPT
        path.parent.mkdir(exist_ok=True)
        text = (tmp_path / "whole" / TRANSCRIPT).read_text().splitlines(keepends=True)
        path.write_text("".join(text[: lines + 1]))
        if lines < len(task.files()) + 1 or len(turns_of(read(path).records)) != wrong + 2:
            continue
        judge = FixedJudge(NO_WINNER)
        hold(task, path.parent, judge)
        assert judge.evaluated[0][0] == KERNELS["wrong.cu"]
        assert len(judge.evaluated[0][1]) == 1 and len(judge.evaluated[-1][1]) == 2
        assert story(path) == story(tmp_path / "whole")
        return
    raise AssertionError("no such cut")


def _is(turn: Turn, source: str) -> bool:
    return getattr(turn.payload, "source", "") == source
