"""Old lines read as lines of the present version, alone and beside lines that a resume appended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from astra_chat.agents.turns import Pass, Turn
from astra_chat.transcript.events import VERSION, ChatMessage, Contradiction, Event, RejectedReply
from astra_chat.transcript.reader import KINDS, migrated, read, unknown_kinds
from astra_chat.transcript.spending import ModelCall, Spent, Tokens
from astra_chat.transcript.writer import Writer, blobs, events_of
from astra_vgpu.ground.errors import BadInput
from tests.chat_samples import SCALAR, analysis, header, run_request

Json = dict[str, Any]

EVENTS: list[Event] = [
    header(),
    *blobs([SCALAR], set()),
    *events_of(Turn("user", run_request()), set()),
    ModelCall(role="planner", model="m", tokens=Tokens(prompt=3)),
    RejectedReply(speaker="planner", reason="cut off"),
    Contradiction(speaker="planner", reason="no such line", stands=True),
    ChatMessage(speaker="planner", payload=Pass(words="launch")),
    ChatMessage(
        speaker="profiler",
        payload=analysis().model_copy(update={"bottleneck": "block_start"}),
    ),
    Spent(
        tokens=Tokens(), roles=(), evaluations=0, steps=(), gpu_s=0, rejected=(), contradictions=2
    ),
]
"""All that has another name in version 1."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A transcript of the present version."""
    writer = Writer(tmp_path / "transcript.jsonl", "run-1")
    writer.append(*EVENTS)
    writer.close()
    return writer.path


def lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def put(path: Path, content: list[Json]) -> None:
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in content))


def as_version_1(line: Json) -> Json:
    event = json.loads(json.dumps(line["event"]).replace('"block_start"', '"launch"'))
    event["kind"] = {new: old for old, new in KINDS.items()}.get(event["kind"], event["kind"])
    if event.get("payload", {}).get("kind") == "request":
        event["payload"]["kind"] = "commission"
    if event["kind"] == "spent":
        event["doubted"] = event.pop("contradictions")
    return {**line, "v": 1, "event": event}


def test_version_1_reads_as_the_present_one(path: Path) -> None:
    expected = read(path).records
    put(path, [as_version_1(line) for line in lines(path)])
    assert '"spoken"' in path.read_text() and '"commission"' in path.read_text()
    assert read(path).records == expected


@pytest.mark.parametrize("old", range(1, len(EVENTS)))
def test_a_resumed_run_has_lines_of_both_versions(path: Path, old: int) -> None:
    """Its first lines are old; those that a resume appended are not."""
    expected, content = read(path).records, lines(path)
    put(path, [as_version_1(line) for line in content[:old]] + content[old:])
    assert read(path).records == expected


def test_old_names_are_unknown_in_the_present_version(path: Path) -> None:
    put(path, [{**as_version_1(line), "v": VERSION} for line in lines(path)])
    with pytest.raises(BadInput, match=r"event\.spent\.doubted: Extra inputs"):
        read(path)
    put(path, [line for line in lines(path) if line["event"]["kind"] != "spent"][:-1])
    assert "spoken, asked, repaired, doubted" in str(unknown_kinds(read(path)))


def test_the_word_launch_stays_where_it_names_no_limiter(path: Path) -> None:
    profile = {"bottleneck": "launch", "why": "launch", "metrics": [{"limiter": "launch"}]}
    line = migrated({"v": 1, "event": {"kind": "judged", "evaluation": {"profile": profile}}})
    assert line["event"]["evaluation"]["profile"] == {
        "bottleneck": "block_start",
        "why": "launch",
        "metrics": [{"limiter": "block_start"}],
    }


@pytest.mark.parametrize("line", [{"v": 1}, {"v": 1, "event": 3}, {"v": 2, "event": {}}, [1], None])
def test_what_is_no_line_of_version_1_comes_back_unchanged(line: object) -> None:
    assert migrated(line) == line
