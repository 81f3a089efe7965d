"""astra-chat verify and pack: tables, JSON, exit codes, bad input."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from astra_chat.cli.main import app
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.verify.forgeries import VIRTUAL, forged, last


def command(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.second_tier
def test_a_table_says_which_claims_stand() -> None:
    result = command("verify", VIRTUAL)
    assert result.exit_code == 0
    assert "hidden cases follow from the seed" in result.stdout
    assert "191 of 192 claims confirmed" in result.stdout
    assert command("verify", VIRTUAL, "--strict").exit_code == 1


@pytest.mark.second_tier
def test_a_forged_run_exits_with_1_and_says_what_fails(tmp_path: Path) -> None:
    path = forged(lambda events: last(events, "ended").update(ratio=1.7), tmp_path)
    result = command("verify", path)
    assert result.exit_code == 1
    assert "ratio is recorded as 1.7, but recomputed as 1.49108" in " ".join(result.stdout.split())


@pytest.mark.second_tier
def test_a_bundle_is_verified_as_json(tmp_path: Path) -> None:
    out = tmp_path / "run.zip"
    packed = command("pack", VIRTUAL, "-o", out, "--no-build")
    assert packed.exit_code == 0 and packed.stdout.strip() == str(out)
    document = json.loads(command("verify", out, "--json").stdout)
    assert document["schema"] == "astra-chat/verify/1"
    assert {one["status"] for one in document["runs"][0]["claims"]} == {"stands", "unchecked"}
    again = command("pack", VIRTUAL, "-o", out)
    assert isinstance(again.exception, BadInput) and "not overwritten" in str(again.exception)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((VIRTUAL, "--device", "virtual"), "require --measure"),
        ((VIRTUAL, "--key", "key.pem"), "only bundles can be signed"),
        (("none.jsonl",), "No such file"),
    ],
)
def test_bad_input_is_one_line(words: tuple[object, ...], said: str) -> None:
    result = command("verify", *words)
    assert isinstance(result.exception, BadInput) and said in str(result.exception)


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in str(command("verify", tmp_path / "pipe").exception)
