"""What a transcript records and only the user may set: shown, typed again or accepted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from astra_chat.models.open_models import open_models
from astra_chat.session.recorded_options import accepted, command_line, resume_command
from astra_chat.session.request import Request, SessionOptions
from astra_chat.tools.task.folder import Task
from astra_chat.transcript.options import RunOptions
from astra_vgpu.ground.errors import BadInput
from tests.chat_samples import DEVICE, run_options

FILE = Path("run/transcript.jsonl")
WORDS = ["--resume", str(FILE)]
LIVE = "openai:o4-mini,base_url=http://10.0.0.1/v1,key_env=SECRET"


def options(**recorded: Any) -> RunOptions:
    return RunOptions.model_validate(recorded)


def taken(given: RunOptions, recorded: RunOptions, accept: bool = False) -> RunOptions:
    session = SessionOptions(accept_recorded_options=accept)
    return accepted(given, session, recorded, FILE, WORDS)


def refused(given: RunOptions, accept: bool = False, **recorded: Any) -> list[str]:
    with pytest.raises(BadInput) as caught:
        taken(given, options(**recorded), accept)
    notes = caught.value.__notes__
    assert "\n" not in "".join([str(caught.value), *notes])
    return notes


def test_each_option_of_a_live_model_has_a_line_and_the_command_takes_it() -> None:
    notes = refused(RunOptions(), models=LIVE, budget="usd=900", rounds=80)
    assert notes == [
        "recorded models: openai:o4-mini",
        "recorded address: http://10.0.0.1/v1",
        "recorded environment variable with the key: SECRET",
        "recorded budget: usd=900",
        "recorded rounds: 80 (default: 5)",
        f"to use what is recorded: astra-chat run {' '.join(WORDS)} --models {LIVE} --rounds 80"
        " --budget usd=900, or add --accept-recorded-options",
    ]


@pytest.mark.parametrize(
    "recorded",
    [
        {},
        {"models": "scripted,coder=scripted"},
        {"models": "transcript:run/other.jsonl"},
        {"models": "transcript"},
        {"rounds": 3, "mutants": 0, "patience": 2},
        {"trust": True},
    ],
)
def test_local_defaults_ask_nothing(recorded: dict[str, Any]) -> None:
    found = taken(RunOptions(), options(**recorded))
    assert found.models == recorded.get("models", "scripted")
    assert not found.trust


def test_what_is_typed_again_asks_nothing() -> None:
    typed = RunOptions(models=LIVE, budget="usd=9", rounds=80, mutants=40)
    recorded = options(models=LIVE, budget="usd=9", rounds=80, mutants=40)
    assert taken(typed, recorded) == typed
    other = RunOptions(models="scripted", budget="", rounds=2, mutants=0)
    assert taken(other, recorded) == other, "the user's word stands"


def test_accepted_options_are_taken_but_never_paths_or_trust() -> None:
    found = taken(RunOptions(), options(models=LIVE, budget="usd=9", trust=True), accept=True)
    assert found == RunOptions(models=LIVE, budget="usd=9")
    for models in ("record:/tmp/x:scripted", "transcript:../../x.jsonl", "auto:x:openai:o4-mini"):
        notes = refused(RunOptions(), accept=True, models=models)
        assert "or add" not in notes[-1] and models in notes[-1]


def test_work_that_no_option_asks_for_is_never_more_than_the_default() -> None:
    found = taken(RunOptions(), options(repairs=9_000, confirmations=100), accept=True)
    assert (found.repairs, found.confirmations) == (2, 3)
    fewer = taken(RunOptions(), options(repairs=1, confirmations=0))
    assert (fewer.repairs, fewer.confirmations) == (1, 0)


def test_what_was_switched_off_stays_so_in_the_proposed_command() -> None:
    off = RunOptions.given(patience=0, stop_at_percent=0, budget="none")
    assert "--budget none --stop-at 0 --patience 0" in refused(off, models=LIVE)[-1]


@pytest.mark.parametrize("field", ["models", "budget", "tier", "strategy"])
def test_recorded_words_are_one_line(field: str) -> None:
    for words in ("a\nb", "a\x1b[2Jb", "a" * 10_001):
        with pytest.raises(ValidationError):
            options(**{field: words})
    notes = refused(RunOptions(), models="openai:a,base_url=http://a/\u202eb")
    assert notes[1] == r"recorded address: http://a/\x202eb"


def test_the_command_of_an_own_run_names_what_has_to_be_typed(task: Task, tmp_path: Path) -> None:
    models = open_models("scripted", task)
    request = Request(task=task, device=DEVICE, models=models, options=run_options())
    assert resume_command(FILE, request) == f"astra-chat run --resume {FILE}"
    recording = open_models(f"record:{tmp_path / 'a b'}:scripted", task)
    more = replace(request, models=recording, options=RunOptions(trust=True), approver="d.toml")
    assert resume_command(FILE, more) == (
        f"astra-chat run --resume {FILE} --models 'auto:{tmp_path}/a b:scripted'"
        " --trust --approver d.toml"
    )


def test_a_command_line_says_every_option() -> None:
    given = RunOptions(models="scripted", stop_at_percent=90.0, trust=True)
    session = SessionOptions(task="silu_and_mul", gpu="h100")
    assert command_line(given, session, ["--branch", "a b", "--from", "2"]) == (
        "astra-chat run silu_and_mul --branch 'a b' --from 2 --models scripted --stop-at 90.0"
        " --trust --gpu h100"
    )
