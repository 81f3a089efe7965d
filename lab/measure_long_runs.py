"""How a chat's time grows with its length: `python -m lab.measure_long_runs`."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from astra_chat.models.run_models import RunModels
from astra_chat.models.script import Script, ScriptedRound
from astra_chat.models.scripted import ScriptedModels
from astra_chat.models.spec import ROLES
from astra_chat.replay.prompts import prompts
from astra_chat.session.request import Request, SessionOptions, request_for
from astra_chat.session.resume import request_on, resumed
from astra_chat.session.run_events import Silent
from astra_chat.session.session import run_request
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.transcript.events import Record
from astra_chat.transcript.options import RunOptions
from astra_chat.transcript.reader import Transcript, read
from lab.measure_astra import InstantJudge

LENGTHS = (50, 200, 1000)
AROUND = 20
"""Turns over which the time of one is averaged."""
TURNS_A_ROUND = 5
PROMPT_ROUNDS = (1, 2, 5, 20, 200)
GAINING_ROUNDS = 20
LINES = 400
"""Lines of every kernel."""


def script(task: Task, rounds: int) -> Script:
    """A script of so many rounds, each with another kernel of LINES lines."""
    text = _long(task.baseline)
    one = {
        "plan": {
            "title": "Another",
            "change": "One line.",
            "why": "To measure.",
            "anchor": "x",
            "metric": "none",
            "predicted_ratio": 1.1,
        },
        "profiler": {"words": "As before.", "bottleneck": "dram"},
    }
    coders = [{"file": f"{n}.cu", "words": "w", "expects": "tie"} for n in range(rounds)]
    return Script(
        testers=(),
        rounds=tuple(ScriptedRound.model_validate({**one, "coder": coder}) for coder in coders),
        choices=(),
        sources={f"{n}.cu": f"// {n}\n{text}" for n in range(rounds)},
    )


def _long(text: str) -> str:
    """The text with comments up to LINES lines."""
    return text + "// a comment, as long as lines of kernels are\n" * (LINES - text.count("\n"))


class CpuClock(Silent):
    """CPU time of this process at each turn: without waiting for the disk and other programs."""

    def __init__(self) -> None:
        self._at: dict[int, float] = {}

    def record(self, record: Record) -> None:
        self._at[record.turn] = time.process_time()

    def turn_ms(self, length: int) -> float:
        """Returns the milliseconds of CPU time of one turn after so many."""
        return 1e3 * (self._at[length + AROUND] - self._at[length]) / AROUND


def main() -> None:
    """Milliseconds of a turn after so many, seconds to continue with such a chat, its prompts."""
    with tempfile.TemporaryDirectory() as folder:
        request, clock = _request(Path(folder) / "run"), CpuClock()
        judge = InstantJudge(request.device, request.task.demo[0][0])
        transcript = read(run_request(request, clock, judge).transcript)
        for length in LENGTHS:
            print(
                f"after {length} turns of kernels of {LINES} lines:"
                f" one more takes {_turn_ms(transcript, length):.1f} ms,"
                f" {clock.turn_ms(length):.1f} ms of them CPU time,"
                f" continuing from a transcript of {_going_on(transcript, length, request, judge)}"
            )
        for line in _prompt_sizes(transcript):
            print(line)
        print(
            f"with a baseline of {LINES} lines and a new best candidate of the same length after"
            " each round:"
        )
        for line in _prompt_sizes(_gaining(Path(folder))):
            print(line)


def _gaining(folder: Path) -> Transcript:
    """A chat in which every prompt holds two long sources: the baseline and the best so far."""
    shutil.copytree(find_task("silu_and_mul").folder, folder / "long")
    baseline = folder / "long" / "baseline.cu"
    baseline.write_text(_long(baseline.read_text()))
    request = _request(folder / "gaining", str(folder / "long"), rounds=GAINING_ROUNDS)
    judge = InstantJudge(request.device, request.task.demo[0][0], gains=True)
    return read(run_request(request, judge=judge).transcript)


def _request(folder: Path, task: str = "silu_and_mul", rounds: int | None = None) -> Request:
    rounds = rounds or max(LENGTHS) // TURNS_A_ROUND + AROUND
    session = SessionOptions(task=task, device="virtual", out=folder)
    request = request_for(RunOptions(rounds=rounds), session)
    played = ScriptedModels(script(request.task, rounds))
    return replace(request, models=RunModels("scripted", dict.fromkeys(ROLES, played)))


def _turn_ms(transcript: Transcript, length: int) -> float:
    at = {record.turn: record.t for record in transcript.records}
    return 1e3 * (at[length + AROUND] - at[length]) / AROUND


def _going_on(transcript: Transcript, length: int, request: Request, judge: InstantJudge) -> str:
    """Size of such a transcript, and the time until its next turn is recorded."""
    path = transcript.path.parent.parent / str(length) / transcript.path.name
    path.parent.mkdir()
    kept = [record.model_dump_json() for record in transcript.records if record.turn <= length]
    path.write_text("\n".join(kept) + "\n")
    size = path.stat().st_size / 1e6
    start = time.perf_counter()
    past = resumed(path)
    going_on = request_on(past, request.task, RunOptions(rounds=length // TURNS_A_ROUND + 1))
    going_on = replace(going_on, models=request.models)
    end = run_request(going_on, judge=judge, past=past)
    seconds = time.perf_counter() - start
    turns = read(end.transcript).records[-1].turn - length
    return f"{size:.1f} MB takes {seconds:.2f} s, {turns} turns and the end included"


def _prompt_sizes(transcript: Transcript) -> Iterator[str]:
    """Characters of each role's prompts, standing instructions included, as rounds go by, and the
    share of a prompt that a server finds in its cache: what it begins with as the one before."""
    made: dict[str, list[str]] = {}
    for prompt in prompts(transcript):
        made.setdefault(prompt.role, []).append(f"{prompt.system}\n{prompt.user}")
    for role, texts in made.items():
        shares = [_shared(*pair) / len(pair[1]) for pair in pairwise(texts)]
        sizes = ", ".join(
            f"{len(texts[number - 1]):,} in round {number}"
            for number in PROMPT_ROUNDS
            if number <= len(texts)
        )
        cached = f"; {statistics.median(shares):.0%} as the one before" if shares else ""
        yield f"prompts of the {role}: {sizes} characters{cached}"


def _shared(before: str, after: str) -> int:
    """Returns the number of characters with which both begin."""
    pairs = zip(before, after, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(before), len(after)))


if __name__ == "__main__":
    main()
