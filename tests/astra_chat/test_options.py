"""Options that are declared once: signatures, fields and the page of the documentation agree."""

from __future__ import annotations

import subprocess
import sys
from inspect import signature
from pathlib import Path
from typing import get_args

import pytest

import astra_chat
from astra_chat.campaign.campaign_file import CampaignFile
from astra_chat.options import EvaluateOptions, RunArguments, declared, page
from astra_chat.session.request import OF_A_RECORDED_RUN, SessionOptions
from astra_chat.transcript.options import RunOptions, option_name

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_what_the_command_prints() -> None:
    assert (ROOT / "docs" / "options.md").read_text() == f"{page()}\n"


def test_every_argument_of_a_run_is_recorded_or_of_the_session() -> None:
    fields = {
        option_name(name) for name in (*RunOptions.model_fields, *SessionOptions.model_fields)
    }
    arguments = {option_name(name) for name in declared(RunArguments)}
    assert arguments - fields == {option_name(name) for name in OF_A_RECORDED_RUN}


def test_recorded_options_have_the_declared_defaults() -> None:
    made = RunOptions()
    for field in RunOptions.model_fields:
        name = option_name(field).removeprefix("--").replace("-", "_")
        if one := declared(RunArguments).get(name):
            value = getattr(made, field)
            texts = {"strategy": str(value), "languages": ",".join(made.languages)}
            assert one.option.default == texts.get(field, value), field


def test_a_campaign_file_takes_options_of_a_run_as_they_are_declared() -> None:
    file = CampaignFile.model_validate(
        {"schema": 1, "tasks": ["silu_and_mul"], "models": ["scripted"]}
    )
    there = declared(RunArguments)
    assert file.shared.keys() <= there.keys()
    for name in ("rounds", "mutants", "tune", "patience", "stop_at", "seed"):
        assert set(get_args(CampaignFile.model_fields[name].annotation)) == set(
            get_args(there[name].kind)
        )


def test_python_has_the_options_of_the_command_line() -> None:
    run, evaluate = signature(astra_chat.run).parameters, signature(astra_chat.evaluate).parameters
    assert run.keys() - {"task", "events", "stop"} == declared(RunArguments).keys()
    assert declared(EvaluateOptions).keys() <= evaluate.keys()
    assert (evaluate["device"].default, run["device"].default) == ("auto", None)


def test_what_is_no_option_is_no_argument() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'round'"):
        astra_chat.run("silu_and_mul", round=3)
    with pytest.raises(TypeError, match="positional"):
        astra_chat.run("silu_and_mul", "scripted")


def test_help_loads_nothing_heavy() -> None:
    code = "import sys, astra_chat.cli.main; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "numpy", "autogen_core", "jinja2", "matplotlib", "rich.table"}
    assert "astra_chat.options" in done.stdout.split() and not heavy & set(done.stdout.split())
