"""Comparisons on disk: read back as written, anything else refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astra_vgpu.ground.errors import BadInput
from lab.baselines.evidence import SCHEMA, of_task, read, write
from tests.recorded_files import EXAMPLES

RECORDED = EXAMPLES / "h200/baselines.json"


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    evidence = read(RECORDED)
    write(tmp_path / "a.json", evidence)
    assert read(tmp_path / "a.json") == evidence


def test_a_task_has_its_own_comparisons_that_have_cases() -> None:
    evidence = read(RECORDED)
    found = of_task([evidence], "merge_state_v2")
    assert found and {c.task for c in found} == {"merge_state_v2"} and all(c.cases for c in found)
    assert of_task([evidence], "another") == []


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": "x"}', json.dumps({"schema": SCHEMA})]
)
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(BadInput, match=r"a\.json"):
        read(tmp_path / "a.json")
