"""An honest recording of a model's answers, changed in one place."""

from __future__ import annotations

import json
from collections.abc import Callable

from astra_chat.models.recording import Head, Recording
from astra_chat.tools.types import Device
from tests.astra_chat.forged import TOO_LONG, Edit, Forgery, Json, Lines, Place

PLAY = ("run", "silu_and_mul", "--models", "RECORDING", "--mutants", "0", "-o", "NEW")
DEVICE = Device(kind="cuda", name="NVIDIA H200", arch="sm_90", spec="h200")


def write_recording(place: Place, edit: Edit) -> None:
    path = place.folder / "recording.jsonl"
    recording = Recording(path, "record")
    recording.begin(
        Head(models="scripted", roles={}, task="silu_and_mul", device=DEVICE, versions={})
    )
    recording.keep(recording.place("tester", {"messages": []}), {"kind": "Answer", "result": {}})
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    edit(lines, place)
    if lines:
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def head(change: Callable[[Json], None]) -> Edit:
    return lambda lines, place: change(lines[0])


def answer(value: object) -> Edit:
    def edit(lines: Lines, place: Place) -> None:
        lines[1]["answer"] = value

    return edit


def sparse(lines: Lines, place: Place) -> None:
    with (place.folder / "recording.jsonl").open("wb") as file:
        file.truncate(2**40)
    lines.clear()


def linked(lines: Lines, place: Place) -> None:
    path = place.folder / "recording.jsonl"
    path.unlink()
    path.symlink_to("/dev/zero")
    lines.clear()


NONE = "not an Astra recording"
RECORDINGS: dict[str, Forgery] = {
    "recording: options for nvcc": Forgery(
        head(lambda one: one["device"].update(arch="sm_90;touch /tmp/x")), NONE, PLAY
    ),
    "recording: a device's terminal codes": Forgery(
        head(lambda one: one["device"].update(name="\x1b]0;x\x07")), NONE, PLAY
    ),
    "recording: another version": Forgery(head(lambda one: one.update(v=99)), "version 99", PLAY),
    "recording: models that are none": Forgery(
        head(lambda one: one.update(models="x=1,,")), "give the model for all roles first", PLAY
    ),
    "recording: an answer that is none": Forgery(answer([1]), "line 2", PLAY),
    "recording: many values": Forgery(answer({"a": [0] * 1_000_000}), "more than 1,000,000", PLAY),
    "recording: a line without end": Forgery(answer({"a": "x" * 2**23}), TOO_LONG, PLAY),
    "recording: a file without end": Forgery(sparse, "at most", PLAY),
    "recording: a device": Forgery(linked, "not a regular file", PLAY),
}
