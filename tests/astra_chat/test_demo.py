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
from astra_chat.tools.types import Case, candidate_id
from astra_chat.transcript.events import Contradiction, Deviation, RejectedReply
from astra_chat.transcript.options import RunOptions
from astra_chat.transcript.reader import Transcript, read
from astra_chat.transcript.turns import turns_of

ROOT = Path(__file__).parents[2]
LIVE = read(ROOT / "transcripts/live/silu_and_mul.jsonl")


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

    def score(self, cases: Sequence[Case], mutants: int) -> CaseScores:
        return next(one for one in self._said if isinstance(one, CaseScores))

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


def test_the_task_has_the_committed_run() -> None:
    packed = BUILTIN / "silu_and_mul" / TRANSCRIPT
    assert gzip.decompress(packed.read_bytes()) == LIVE.path.read_bytes()


def test_todays_chat_takes_every_recorded_reply(tmp_path: Path) -> None:
    """With the recorded results; the test below has the judge."""
    session = SessionOptions(task="silu_and_mul", device="virtual", out=tmp_path / "out")
    request = request_for(RunOptions(), session)
    judge = RecordedResults(turns_of(LIVE.records))
    again = read(run_request(request, judge=judge).transcript)
    assert parted(again) == []
    assert course(again) == course(LIVE)
    assert again.ended is not None and again.ended.reason == "profiler"


def test_without_recorded_replies_the_script_is_there(tmp_path: Path) -> None:
    session = SessionOptions(task="silu_and_mul", device="virtual", out=tmp_path / "out")
    assert request_for(RunOptions(), session).models.name == "transcript"
    assert request_for(RunOptions(models="scripted"), session).models.name == "scripted"
    other = session.model_copy(update={"task": "merge_state_v2"})
    assert request_for(RunOptions(), other).models.name == "scripted"


@pytest.mark.second_tier
def test_todays_judge_finds_what_was_recorded(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "astra_chat", "run", "silu_and_mul", "--device", "virtual",
         "-o", str(tmp_path / "out")],
        cwd=ROOT, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    head = " ".join(done.stdout.split("\n\n")[0].split())
    assert "replies recorded: live run 20261122-163434-ec95da of 2026-11-22 (Claude" in head
    assert "--models scripted plays the task's script" in head
    again = read(tmp_path / "out")
    assert parted(again) == []
    assert course(again) == course(LIVE)
    assert again.ended is not None and LIVE.ended is not None
    assert again.ended.best == LIVE.ended.best
