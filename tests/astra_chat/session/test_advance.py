"""Runs with --judge detached: killed anywhere they come to the same end; what they wait for."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path

import pytest

from astra_chat.detached.jobs import folders_in
from astra_chat.detached.results import RESULT, write_refusal
from astra_chat.models.open_models import open_models
from astra_chat.session.advance import detached_runs, standing_of
from astra_chat.session.results import RunResult
from astra_chat.session.resume import request_on, resumed
from astra_chat.session.session import run_request
from astra_chat.tools.task.folder import Task
from astra_chat.transcript.events import Ended
from astra_chat.transcript.options import RunOptions
from astra_chat.transcript.reader import read
from astra_chat.transcript.run_folder import JOBS, TRANSCRIPT
from astra_chat.verify.draw_claims import SEEDS, draw_claims
from astra_chat.verify.recorded import opened
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.job_samples import answer
from tests.astra_chat.run_samples import chat_request
from tests.astra_chat.test_kill import NO_WINNER, Events
from tests.chat_samples import FixedJudge, run_options, story

OPTIONS = run_options(judge="detached")


def hold(task: Task, out: Path, options: RunOptions = OPTIONS) -> RunResult:
    """Begin a run, or continue with what is left of one."""
    path = out / TRANSCRIPT
    if path.is_file() and path.stat().st_size:
        past = resumed(path)
        return run_request(request_on(past, task), past=past)
    models = open_models("scripted", task)
    request = chat_request(task, out, models=models, options=options)
    return run_request(request, judge=None if options.judge == "detached" else local_judge())


def local_judge() -> FixedJudge:
    return FixedJudge(NO_WINNER)


def answer_all(out: Path) -> None:
    for folder in folders_in(out / JOBS):
        if not (folder / RESULT).exists():
            answer(folder, NO_WINNER)


def to_the_end(task: Task, out: Path) -> int:
    """How many sessions a run takes to its end."""
    sessions = 0
    while True:
        sessions += 1
        result = hold(task, out)
        if result.job is None:
            return sessions
        answer_all(out)


def held_by_a_killed_process(task: Task, out: Path, event: int) -> bool:
    """Hold the chat in a process of its own and kill it at an event; False if it ended before."""
    child = os.fork()
    if child == 0:
        with Events(event):
            hold(task, out)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.second_tier
def test_judged_elsewhere_it_comes_to_the_same_end(task: Task, tmp_path: Path) -> None:
    hold(task, tmp_path / "local", run_options())
    assert to_the_end(task, tmp_path / "whole") == 5
    assert chat(tmp_path / "whole") == chat(tmp_path / "local")
    require_seeds_of_the_sessions_that_asked(tmp_path / "whole")


@pytest.mark.second_tier
def test_killed_anywhere_it_comes_to_the_same_end(task: Task, tmp_path: Path) -> None:
    """A killed run ends the same way, and nothing is judged twice."""
    to_the_end(task, tmp_path / "whole")
    with Events() as events:
        hold(task, tmp_path / "counted")
    dice, out, kills = random.Random(20261123), tmp_path / "killed", 0
    while kills < 4 and not ((out / TRANSCRIPT).exists() and is_over(out)):
        kills += held_by_a_killed_process(task, out, dice.randrange(events.count))
        answer_all(out)
    to_the_end(task, out)
    assert kills >= 2 and chat(out) == chat(tmp_path / "whole")
    assert len(folders_in(out / JOBS)) == len(folders_in(tmp_path / "whole" / JOBS)) == 4


def is_over(out: Path) -> bool:
    ended = read(out).ended
    return ended is not None and not ended.job


def require_seeds_of_the_sessions_that_asked(out: Path) -> None:
    """Require that the seeds stand as `verify` sees them; with other roots they fail, without a
    killed session's nothing can be said."""
    text = (out / TRANSCRIPT).read_text()
    events = [record.event for record in read(out).records]
    roots = {event.seed for event in events if isinstance(event, Ended) and event.seed}
    for name, forge, status in (("a", False, "stands"), ("b", True, "fails")):
        path = out.parent / f"{name}.jsonl"
        path.write_text(re.sub("|".join(roots), 32 * "0", text) if forge else text)
        with opened(read(path)) as run:
            claims = [one.status for one in draw_claims(run) if one.name == SEEDS]
        assert claims == 4 * [status]
    ends = [line for line in text.splitlines(keepends=True) if '"kind":"ended"' not in line]
    records = [json.loads(line) for line in ends]
    path.write_text("".join(json.dumps({**r, "seq": i}) + "\n" for i, r in enumerate(records)))
    with opened(read(path)) as run:
        claims = [one.status for one in draw_claims(run) if one.name == SEEDS]
    assert claims == 4 * ["unchecked"]


def chat(out: Path) -> list[str]:
    """The story without the builds, which a judge of fixed findings only pretends to make."""
    return [line for line in story(out) if not line.startswith('{"kind": "build"')]


def test_what_a_run_waits_for(task: Task, tmp_path: Path) -> None:
    out = tmp_path / "runs" / "one"
    result = hold(task, out)
    assert result.job is not None
    hold(task, tmp_path / "runs" / "local", run_options())
    (one,) = detached_runs([tmp_path, tmp_path / "runs"])
    assert (one.path, one.state, one.ready) == (out / TRANSCRIPT, "waiting", False)
    assert f"job {result.job.name[:12]}" in one.words and "astra-chat judge work" in one.words
    write_refusal(result.job, "no such GPU", "box:1")
    assert (refused := standing_of(one.path)) and "refused by box:1: no such GPU" in refused.words
    (result.job / RESULT).write_text("{")
    broken = standing_of(one.path)
    assert broken is not None and not broken.ready and "result.json is not a result" in broken.words
    answer(result.job)
    assert (answered := standing_of(one.path)) and answered.ready
    lines = one.path.read_text().splitlines(keepends=True)
    one.path.write_text("".join(lines[:-1]))
    killed = standing_of(one.path)
    assert killed is not None and killed.ready and killed.state == "stopped"
    one.path.write_text(lines[0] + json.dumps({"v": 2}) + "\n")
    unreadable = standing_of(one.path)
    assert unreadable is not None and unreadable.state == "unreadable" and not unreadable.ready
    with pytest.raises(BadInput, match="not a folder"):
        detached_runs([tmp_path / "nowhere"])
