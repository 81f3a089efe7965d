"""astra-chat export: forms, filters, what is left out, and what is not overwritten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from astra_chat.cli.main import app
from astra_vgpu.ground.errors import BadInput
from tests.recorded_files import EXAMPLES, VIRTUAL

H200 = EXAMPLES / "h200/merge_state_v2.jsonl"


def export(*words: object) -> Result:
    return CliRunner().invoke(app, ["export", *(str(word) for word in words)])


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("filters", "rows"),
    [
        ([], 17),
        (["--measured"], 6),
        (["--confirmed"], 4),
        (["--device", "h200", "--confirmed", "--measured"], 2),
        (["--live"], 0),
    ],
)
def test_filters_hold_together(filters: list[str], rows: int, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    result = export(VIRTUAL, H200, "--to", "jsonl", "-o", out, *filters)
    assert result.exit_code == 0 and result.stdout.strip() == str(out)
    assert len(lines(out)) == rows and f"{rows} rows" in result.stderr


def test_a_run_is_taken_once_and_no_file_is_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    result = export(VIRTUAL, VIRTUAL, "--to", "jsonl", "-o", out)
    assert "is left out" in result.stderr and len(lines(out)) == 9
    for form in ("jsonl", "flashinfer-bench"):
        again = export(VIRTUAL, "--to", form, "-o", out)
        assert isinstance(again.exception, BadInput) and "not overwritten" in str(again.exception)


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    result = export(VIRTUAL, "--to", "jsonl", "-o", tmp_path / "none" / "rows.jsonl")
    assert isinstance(result.exception, BadInput) and "cannot write" in str(result.exception)
