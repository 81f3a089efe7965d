"""The committed schema is that of the types, and the committed runs keep to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from astra_chat.tools.recordings.reading import read_recorded
from astra_chat.transcript.events import KINDS, VERSION
from lab.transcript_schema import schema

TRANSCRIPTS = Path(__file__).resolve().parents[2] / "transcripts"
COMMITTED = json.loads((TRANSCRIPTS / "schema.json").read_text())
LINES = {
    path.stem: [json.loads(line) for line in read_recorded(path).splitlines()]
    for path in sorted((TRANSCRIPTS / "examples").rglob("*.jsonl*"))
}
PRESENT = {name: lines for name, lines in LINES.items() if lines[0]["v"] == VERSION}


def test_it_is_generated_from_the_types() -> None:
    assert schema() == COMMITTED, "python -m lab.transcript_schema > transcripts/schema.json"


@pytest.mark.parametrize("name", PRESENT)
def test_a_recorded_run_keeps_to_it(name: str) -> None:
    validator = Draft202012Validator(COMMITTED)
    for line in PRESENT[name][::7]:
        validator.validate(line)


def test_a_wrong_line_does_not() -> None:
    validator = Draft202012Validator(COMMITTED)
    good: dict[str, Any] = next(iter(PRESENT.values()))[-1]
    for change in ({"turn": -1}, {"event": {**good["event"], "reason": "bored"}}, {"v": 3}):
        assert not validator.is_valid({**good, **change}), change
    infinite = {**good, "event": {**good["event"], "ratio": "Infinity"}}
    assert validator.is_valid(infinite)


def test_every_kind_is_in_the_readme() -> None:
    readme = (TRANSCRIPTS / "README.md").read_text()
    assert [kind for kind in KINDS if f"| `{kind}` |" not in readme] == []
