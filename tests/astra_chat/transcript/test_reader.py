"""Transcripts that are whole, torn, cut, of another version, or something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astra_chat.transcript.events import Unknown
from astra_chat.transcript.reader import Transcript, read, unknown_kinds
from astra_vgpu.ground.errors import BadInput
from tests.chat_samples import write_transcript


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_transcript(tmp_path / "transcript.jsonl")


def edit(path: Path, line: int, **changes: object) -> None:
    """Change fields of one line of a transcript."""
    lines = path.read_text().splitlines()
    lines[line] = json.dumps({**json.loads(lines[line]), **changes})
    path.write_text("\n".join(lines) + "\n")


def refusal(path: Path) -> str:
    with pytest.raises(BadInput) as caught:
        read(path)
    words = str(caught.value)
    assert "\n" not in words, "one line"
    assert str(path.name) in words
    return words


def test_a_whole_transcript(path: Path) -> None:
    found = read(path)
    assert not found.torn and found.ended is not None
    assert found.header.task.name == "doubled"
    assert [record.seq for record in found.records] == list(range(len(found.records)))


def test_a_runs_folder_stands_for_its_transcript(path: Path) -> None:
    assert read(path.parent) == read(path)


def test_a_torn_last_line_is_dropped(path: Path) -> None:
    whole = read(path)
    path.write_text(path.read_text()[:-30])
    found = read(path)
    assert found.torn and found.records == whole.records[:-1] and found.ended is None


def test_a_killed_run_has_no_end(path: Path) -> None:
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    found = read(path)
    assert not found.torn and found.ended is None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_cut_anywhere_it_is_a_prefix_or_a_clear_refusal(path: Path, data: st.DataObject) -> None:
    text = path.read_bytes()
    cut = path.with_name("cut.jsonl")
    cut.write_bytes(text[: data.draw(st.integers(0, len(text) - 1))])
    try:
        found: Transcript | None = read(cut)
    except BadInput as error:
        assert "cut.jsonl" in str(error) and "\n" not in str(error)
    else:
        assert found is not None
        assert found.records == read(path).records[: len(found.records)]


def test_of_another_version(path: Path) -> None:
    edit(path, 0, v=99)
    assert "format version 99; this version of Astra reads versions 1 to 2" in refusal(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        "{}\n",
        "[1, 2]\n",
        '{"v": 1}\n',
        '"v"\n',
        '{"v":1,"run":"r","seq":0,"event":3}\n',
    ],
)
def test_not_a_transcript_at_all(tmp_path: Path, text: str) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text(text)
    assert "not an Astra transcript" in refusal(other)


def test_a_binary_file(tmp_path: Path) -> None:
    other = tmp_path / "other.bin"
    other.write_bytes(bytes(range(256)) * 10)
    assert "not an Astra transcript" in refusal(other)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "cannot read" in refusal(tmp_path / "none.jsonl")


def test_a_missing_line(path: Path) -> None:
    lines = path.read_text().splitlines()
    del lines[-2]
    path.write_text("\n".join(lines) + "\n")
    assert "lines are missing" in refusal(path)


def test_a_line_of_another_run(path: Path) -> None:
    edit(path, 3, run="another")
    assert "line 4" in refusal(path)


def test_a_broken_line_is_named(path: Path) -> None:
    edit(path, 2, event={"kind": "ended", "reason": "bored"})
    assert "line 3: event.ended.reason" in refusal(path)


def test_an_event_of_a_newer_astra_is_kept_and_named(path: Path) -> None:
    lines = path.read_text().splitlines()
    place = next(i for i, line in enumerate(lines) if '"chosen"' in line)
    edit(path, place, event={"kind": "unheard\nof", "figures": [1, 2]})
    found = read(path)
    event = found.records[place].event
    assert isinstance(event, Unknown)
    assert event.model_dump() == {"kind": "unheard\nof", "figures": [1, 2]}
    assert unknown_kinds(found) == (f"{path}: 1 events of unknown kind are not shown: unheard of")
    assert found.records[place].model_dump_json() == json.dumps(
        json.loads(path.read_text().splitlines()[place]), separators=(",", ":")
    )


def test_a_first_line_that_is_no_header(path: Path) -> None:
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[1:]) + "\n")
    assert "header" in refusal(path)


def test_cut_within_the_tasks_files(path: Path) -> None:
    path.write_text("\n".join(path.read_text().splitlines()[:1]) + "\n")
    assert "the task's" in refusal(path) and "is missing" in refusal(path)
