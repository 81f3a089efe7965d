"""A run from Python: the user's words reach the record, and what is off is named."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from astra_chat.mailbox.questions import waiting
from astra_chat.session.api import arun, run
from astra_chat.session.run_events import Silent
from astra_chat.session.signals import StopRun
from astra_chat.transcript.events import Record
from astra_chat.transcript.reader import read
from astra_vgpu.ground.errors import BadInput


@pytest.mark.second_tier
def test_the_users_words_are_recorded(task_folder: Path, tmp_path: Path) -> None:
    seen: list[Record] = []

    class Hearing(Silent):
        def record(self, record: Record) -> None:
            seen.append(record)

    result = run(
        task_folder,
        device="virtual",
        out=tmp_path / "out",
        mutants=0,
        budget="evaluations=1",
        patience=3,
        stop_at=90.0,
        events=Hearing(),
    )
    transcript = read(result.transcript)
    options = transcript.options
    assert (options.mutants, options.patience, options.stop_at_percent) == (0, 3, 90.0)
    assert options.limits.mutants == 0 and options.budget == "evaluations=1"
    assert seen == list(transcript.records)
    assert result.summary.ended is not None and result.summary.ended.reason == "evaluations"
    gone_on = run(resume=result.transcript, mutants=2, budget="evaluations=2")
    assert read(gone_on.transcript).options.mutants == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"mutants": -1}, "--mutants -1"),
        ({"patience": -1}, "--patience -1"),
        ({"resume": "a", "branch": "b"}, "give only one"),
    ],
)
def test_what_is_off_is_named(task_folder: Path, words: dict[str, int], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        run(task_folder, device="virtual", **words)  # type: ignore[arg-type]


@pytest.mark.second_tier
def test_it_can_be_awaited_and_cancelled(task_folder: Path, tmp_path: Path) -> None:
    """Cancelled while its mailbox is not answered; what was recorded can be resumed."""
    box, out = tmp_path / "box", tmp_path / "out"

    async def cancelled() -> None:
        running = asyncio.ensure_future(
            arun(task_folder, device="virtual", mutants=0, out=out, models=f"mailbox:{box}")
        )
        while not (box.is_dir() and list(waiting(box))):
            assert not running.done(), running.exception()
            await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())
    ended = read(out).ended
    assert ended is not None and ended.reason == "interrupted"
    result = asyncio.run(arun(resume=out, models="scripted", budget="evaluations=1"))
    assert result.summary.ended is not None and result.summary.ended.reason == "evaluations"


def test_a_run_that_is_stopped_before_it_begins_ends_at_once(
    task_folder: Path, tmp_path: Path
) -> None:
    stop = StopRun()
    stop()
    result = run(task_folder, device="virtual", out=tmp_path / "out", stop=stop)
    assert result.summary.ended is not None and result.summary.ended.reason == "interrupted"
    assert not result.summary.rounds
