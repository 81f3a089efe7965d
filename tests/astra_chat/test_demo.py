"""What `make demo` shows: the recorded replies of a live run, judged now."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from astra_chat.agents.turns import Kernel, Turns
from astra_chat.session.request import SessionOptions, request_for
from astra_chat.session.session import run_request
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.task.folder import BUILTIN, TRANSCRIPT
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import Case, candidate_id
from astra_chat.transcript.events import Contradiction, Deviation, RejectedReply
from astra_chat.transcript.options import RunOptions
from astra_chat.transcript.reader import Transcript, read
from astra_chat.transcript.turns import turns_of

ROOT = Path(__file__).parents[2]
LIVE = {
    "silu_and_mul": (RunOptions(), read(ROOT / "transcripts/live/silu_and_mul.jsonl")),
    "merge_state_v2": (
        RunOptions.given(strategy="single"),
        read(ROOT / "transcripts/live/merge_state_v2-single.jsonl"),
    ),
}
"""Options with which a task's recorded run is the default, and that run."""


@pytest.fixture(params=LIVE)
def task(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class RecordedResults:
    """The judge's interface with the results of the live run."""

    def __init__(self, turns: Turns) -> None:
        self._said = [turn.payload for turn in turns]

    def build(self, source: str, also: Sequence[str] = ()) -> BuildReport:
        found = [one for one in self._said if isinstance(one, BuildReport)]
        return next(one for one in found if one.candidate == candidate_id(source))

    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation:
        found = [one for one in self._said if isinstance(one, Evaluation)]
        asked = candidate_id(source), fresh_seeds
        return next(one for one in found if (one.candidate, one.confirms) == asked)

    def score(self, cases: Sequence[Case], mutants: int, also: str = "") -> CaseScores:
        return next(one for one in self._said if isinstance(one, CaseScores))

    def tune(self, source: str, points: int, measured: int) -> Tuning:
        raise NotImplementedError("the recorded runs tune nothing")

    def cancel(self) -> None:
        """Nothing is running."""


def parted(transcript: Transcript) -> list[object]:
    """What shows that a reply no longer fits the chat, or a result the record."""
    kinds = (Contradiction, Deviation, RejectedReply)
    return [r.event for r in transcript.records if isinstance(r.event, kinds)]


def course(transcript: Transcript) -> list[tuple[str, str]]:
    """Who spoke, and of kernels which."""
    turns = [(turn.speaker, turn.payload) for turn in turns_of(transcript.records)]
    return [(who, said.candidate if isinstance(said, Kernel) else "") for who, said in turns]


def test_the_task_has_the_committed_run(task: str) -> None:
    packed = BUILTIN / task / TRANSCRIPT
    assert gzip.decompress(packed.read_bytes()) == LIVE[task][1].path.read_bytes()


def test_todays_chat_takes_every_recorded_reply(task: str, tmp_path: Path) -> None:
    """With the recorded results; the test below has the judge."""
    options, live = LIVE[task]
    session = SessionOptions(task=task, device="virtual", out=tmp_path / "out")
    judge = RecordedResults(turns_of(live.records))
    again = read(run_request(request_for(options, session), judge=judge).transcript)
    assert parted(again) == []
    assert course(again) == course(live)
    assert again.ended is not None and live.ended is not None
    assert again.ended.reason == live.ended.reason


@pytest.mark.parametrize(
    ("name", "given", "models"),
    [
        ("silu_and_mul", {}, "transcript"),
        ("silu_and_mul", {"models": "scripted"}, "scripted"),
        ("silu_and_mul", {"strategy": "single"}, "scripted"),
        ("merge_state_v2", {}, "scripted"),
        ("fused_add_rmsnorm", {}, "scripted"),
    ],
)
def test_a_script_is_played_where_no_recorded_run_fits(
    name: str, given: dict[str, str], models: str, tmp_path: Path
) -> None:
    session = SessionOptions(task=name, device="virtual", out=tmp_path / "out")
    assert request_for(RunOptions.given(**given), session).models.name == models


@pytest.mark.sampled(1)
@pytest.mark.second_tier
def test_todays_judge_finds_what_was_recorded(task: str, tmp_path: Path) -> None:
    options, live = LIVE[task]
    command = ["run", task, "--strategy", str(options.strategy), "--device", "virtual"]
    done = subprocess.run(
        [sys.executable, "-m", "astra_chat", *command, "-o", str(tmp_path / "out")],
        cwd=ROOT, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    head = " ".join(done.stdout.split("\n\n")[0].split())
    assert f"replies recorded: live run {live.records[0].run} of 2026-11-22 (Claude" in head
    assert "--models scripted plays the task's script" in head
    again = read(tmp_path / "out")
    assert parted(again) == []
    assert course(again) == course(live)
    assert again.ended is not None and live.ended is not None
    assert again.ended.best == live.ended.best
