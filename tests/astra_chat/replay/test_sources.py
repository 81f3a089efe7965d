"""Sources of a recorded run by name, their differences, and lines found in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.replay.sources import difference, found, source
from astra_chat.tools.types import candidate_id
from astra_chat.transcript.reader import Transcript, read
from astra_vgpu.ground.errors import BadInput
from tests.chat_samples import VECTOR, write_transcript


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return read(write_transcript(tmp_path / "t.jsonl"))


def test_a_source_by_name_first_digits_or_rank(transcript: Transcript) -> None:
    name = candidate_id(VECTOR)
    assert source(transcript, name) == source(transcript, name[:5]) == VECTOR
    assert source(transcript, "best") == VECTOR != source(transcript, "baseline")
    with pytest.raises(BadInput, match="did you mean best"):
        source(transcript, "bset")


def test_the_difference_of_two(transcript: Transcript) -> None:
    lines = difference(transcript, "baseline", "best").splitlines()
    assert lines[:2] == ["--- baseline", "+++ best"]
    assert [line[1:] for line in lines[3:] if line[0] in " +"] != []
    assert difference(transcript, "best", "best") == ""


def test_lines_are_found_with_their_turn(transcript: Transcript) -> None:
    assert any("coder: " in line for line in found(transcript, "four at a TIME"))
    name = candidate_id(VECTOR)
    assert any(f"coder, {name}:" in line for line in found(transcript, "__global__"))
    assert list(found(transcript, "nobody says this")) == []
