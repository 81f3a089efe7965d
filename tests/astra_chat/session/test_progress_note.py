"""How far the judge of a run is, for whoever waits elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.agents.turns import Turn
from astra_chat.models.open_models import open_models
from astra_chat.session import progress_note
from astra_chat.session.progress_note import ProgressNote
from astra_chat.session.recorder import begin
from astra_chat.session.run_events import Silent
from astra_chat.tools.progress import Progress
from astra_chat.tools.task.folder import Task
from astra_chat.transcript.run_folder import PROGRESS
from astra_chat.transcript.under_way import progress_of
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import baseline_turns


def test_the_note_says_step_and_cases_and_goes_with_the_result(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_note, "EVERY_S", 0.0)
    models, folder = open_models("scripted", task), tmp_path / "out"
    request = chat_request(task, folder, models=models)
    note = ProgressNote(Silent())
    recorder = begin(request, None, note.record)
    note.begin(recorder)
    request_turn, tests, baseline = baseline_turns()
    for said in (request_turn, tests):
        recorder.take(said)
    for done in (3, 31):
        note.progress(Progress(step="check", done=done, total=58, text="compared"))
    said = progress_of(recorder.path)
    assert said.startswith("judging the baseline") and said.endswith("check, 31 of 58: compared")
    recorder.take(Turn("executor", baseline.payload))
    assert progress_of(recorder.path) == "" and not (folder / PROGRESS).exists()
    note.clear()
    recorder.close()
