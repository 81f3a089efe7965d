"""Runs with --judge detached: which of them can go on, and what the others wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from astra_chat.arguments import require_folder
from astra_chat.detached.jobs import read_job
from astra_chat.detached.results import refusal_of, result_of
from astra_chat.mailbox.files import Unreadable
from astra_chat.tools.text import one_line
from astra_chat.transcript.reader import Transcript, read
from astra_chat.transcript.run_folder import JOBS
from astra_chat.transcript.under_way import State, locked_inodes, state_of_run
from astra_chat.viewer.runs import transcripts_in
from astra_vgpu.ground.errors import BadInput


@dataclass(frozen=True)
class DetachedRun:
    """A run that was started with --judge detached."""

    path: Path
    state: State
    words: str
    """What it does or waits for, or how it ended."""
    ready: bool = False
    """It can go on: its result is there, or it was killed."""


def detached_runs(roots: Sequence[Path]) -> list[DetachedRun]:
    """Those in these folders, by path. Raises BadInput where one is no folder."""
    for root in roots:
        require_folder(root)
    paths = {path.resolve(): path for root in roots for path in transcripts_in(root)}
    found = (standing_of(path) for _, path in sorted(paths.items()))
    return [one for one in found if one is not None]


def standing_of(path: Path) -> DetachedRun | None:
    """Where a run stands; None for one without --judge detached."""
    try:
        transcript = read(path)
    except BadInput as error:
        return DetachedRun(path, "unreadable", str(error))
    if transcript.options.judge != "detached":
        return None
    running = path.stat().st_ino in locked_inodes()
    state, words = state_of_run(transcript.records, running)
    if running:
        return DetachedRun(path, state, words)
    if transcript.ended is None:
        return DetachedRun(path, state, words, ready=True)
    if state == "waiting" and transcript.ended.job:
        problem, ready = _job(transcript, transcript.ended.job)
        return DetachedRun(path, state, f"{words}{problem}", ready)
    return DetachedRun(path, state, words)


def _job(transcript: Transcript, name: str) -> tuple[str, bool]:
    """What is wrong with the job that a run waits for, and whether the run can go on. A job that is
    gone or was changed is asked for again."""
    folder = transcript.path.parent / JOBS / one_line(name).replace("/", "")
    try:
        job = read_job(folder)
    except Unreadable:
        return "", True
    try:
        if result_of(folder, job) is not None:
            return "", True
    except Unreadable as error:
        return f"; {error}", False
    refusal = refusal_of(folder)
    return f"; {refusal.text}" if refusal else "", False
