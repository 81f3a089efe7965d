"""The recording itself: keys, occurrences, torn ends, and what it says where nothing fits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astra_chat.models.recording import Head, Json, Mode, Recording, key_of
from astra_vgpu.ground.errors import BadInput
from tests.chat_samples import DEVICE

HEAD = Head(
    models="openai:m", roles={"coder": "openai:m"}, task="doubled", device=DEVICE, versions={}
)
ONE: Json = {"messages": [{"type": "UserMessage", "content": "first\nline"}]}
TWO: Json = {"messages": [{"type": "UserMessage", "content": "second\nline"}]}


def opened(path: Path, mode: Mode) -> Recording:
    recording = Recording(path, mode)
    recording.begin(HEAD)
    return recording


def put(recording: Recording, who: str, request: Json, answer: Json) -> None:
    place = recording.place(who, request)
    assert recording.recorded(place) is None
    recording.keep(place, answer)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A recording with one answer of the coder and two, to the same request, of the planner."""
    path = tmp_path / "deep" / "tape.jsonl"
    recording = opened(path, "record")
    put(recording, "coder", ONE, {"said": "a"})
    put(recording, "planner", ONE, {"said": "b"})
    put(recording, "planner", ONE, {"said": "c"})
    return path


def get(recording: Recording, who: str, request: Json) -> Json | None:
    return recording.recorded(recording.place(who, request))


def test_an_answer_belongs_to_who_asked_what_for_the_nth_time(path: Path) -> None:
    recording = opened(path, "replay")
    assert get(recording, "planner", ONE) == {"said": "b"}
    assert get(recording, "coder", ONE) == {"said": "a"}
    assert get(recording, "planner", ONE) == {"said": "c"}
    assert recording.head == HEAD


def test_every_line_is_on_the_disk_at_once(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    recording = opened(path, "record")
    assert path.read_text().count("\n") == 1
    put(recording, "coder", ONE, {"said": "a"})
    lines = path.read_text().splitlines()
    assert len(lines) == 2 and json.loads(lines[1])["answer"] == {"said": "a"}


def test_keys_do_not_depend_on_the_order_of_fields() -> None:
    assert key_of({"a": 1, "b": [1, 2]}) == key_of({"b": [1, 2], "a": 1})
    assert key_of({"a": 1}) != key_of({"a": 2})


def miss(recording: Recording, who: str, request: Json) -> str:
    with pytest.raises(BadInput) as caught:
        get(recording, who, request)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_not_recorded_is_set_against_the_nearest(path: Path) -> None:
    said = miss(opened(path, "replay"), "coder", TWO)
    assert f"{path}: this request from the coder is not recorded" in said
    assert "closest one, 1 of 1" in said
    assert "message 1 (UserMessage) differs: - 'first'; + 'second'" in said


def test_asked_once_too_often(path: Path) -> None:
    recording = opened(path, "replay")
    assert get(recording, "coder", ONE)
    assert "contains this request from the coder only 1 time" in miss(recording, "coder", ONE)


def test_somebody_who_never_asked(path: Path) -> None:
    assert "no request from the tester is recorded" in miss(opened(path, "replay"), "tester", ONE)


def test_a_new_recording_overwrites_nothing(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(BadInput, match="not overwritten"):
        Recording(path, "record")
    assert path.read_bytes() == before


def test_auto_plays_what_is_there_and_adds_the_rest(path: Path) -> None:
    before = path.read_bytes()
    recording = opened(path, "auto")
    assert get(recording, "coder", ONE) == {"said": "a"}
    put(recording, "coder", TWO, {"said": "d"})
    assert path.read_bytes().startswith(before)
    again = opened(path, "replay")
    assert get(again, "coder", TWO) == {"said": "d"}


def test_auto_begins_a_tape(tmp_path: Path) -> None:
    put(opened(tmp_path / "new.jsonl", "auto"), "coder", ONE, {"said": "a"})
    assert get(opened(tmp_path / "new.jsonl", "replay"), "coder", ONE) == {"said": "a"}


def test_auto_asks_again_what_failed(path: Path) -> None:
    put(opened(path, "auto"), "coder", TWO, {"failure": "MissingDependency", "words": "gone"})
    put(opened(path, "auto"), "coder", TWO, {"said": "d"})
    assert get(opened(path, "replay"), "coder", TWO) == {"said": "d"}


@pytest.mark.parametrize("cut", [1, 20, 150])
def test_a_torn_last_line_is_left_out_and_cut_off(path: Path, cut: int) -> None:
    path.write_bytes(path.read_bytes()[:-cut])
    recording = opened(path, "auto")
    assert get(recording, "planner", ONE) == {"said": "b"}
    put(recording, "planner", ONE, {"said": "again"})
    assert all(json.loads(line) for line in path.read_text().splitlines())
    again = opened(path, "replay")
    assert get(again, "planner", ONE) == {"said": "b"}
    assert get(again, "planner", ONE) == {"said": "again"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not an Astra recording"),
        ("hello\n", "not an Astra recording"),
        ('{"v": 1, "run": "x"}\n', "not an Astra recording"),
        (HEAD.model_dump_json() + "\n{}\n", "line 2: "),
        (HEAD.model_copy(update={"v": 9}).model_dump_json() + "\n", "format version 9"),
    ],
)
def test_what_is_no_tape(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "tape").write_text(text)
    with pytest.raises(BadInput, match=words):
        Recording(tmp_path / "tape", "replay")


def test_a_tape_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot read"):
        Recording(tmp_path / "none", "replay")


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot write"):
        opened(tmp_path / "file" / "tape", "record")


def test_playing_changes_nothing(path: Path) -> None:
    before = path.read_bytes()
    get(opened(path, "replay"), "coder", ONE)
    assert path.read_bytes() == before
