"""An honest recorded run, changed in one place: what somebody may send who wants more than readers.

Each forgery says which command meets it and which words the one line that refuses it holds.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_chat.tools.recordings.reading import read_recorded

EXAMPLE = Path(__file__).resolve().parents[2] / "transcripts/examples/silu_and_mul-h200.jsonl.xz"
Json = dict[str, Any]
Lines = list[Json]
Edit = Callable[[Lines, "Place"], None]


@dataclass(frozen=True)
class Place:
    """Where a forgery lies, and what it aims at."""

    folder: Path
    outside: Path
    """A folder of the user's own, in which nothing may appear."""
    port: int
    """Port of a listener on loopback that nothing may connect to."""

    @property
    def file(self) -> Path:
        return self.folder / "transcript.jsonl"


@dataclass(frozen=True)
class Forgery:
    edit: Edit
    said: str
    """Words in the line that refuses it."""
    words: tuple[str, ...] = ("run", "--resume", "FILE")
    """The command."""


def virtual(lines: Lines) -> None:
    """The example as a killed run on the virtual GPU, which every machine can resume."""
    device = {
        "kind": "virtual",
        "index": 0,
        "name": "virtual GPU, estimates for NVIDIA H200",
        "arch": "sm_90",
        "spec": "h200",
    }
    lines[0]["event"]["device"] = device
    end = next(i for i, line in enumerate(lines) if line["turn"] == 4)
    del lines[end + 1 :]


def write(place: Place, edit: Edit) -> None:
    """The forged transcript, in a folder of its own."""
    lines = [json.loads(line) for line in read_recorded(EXAMPLE).splitlines()]
    virtual(lines)
    edit(lines, place)
    if not os.path.lexists(place.file):
        place.file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def option(name: str, value: Any) -> Edit:
    def edit(lines: Lines, place: Place) -> None:
        text = value
        if isinstance(value, str):
            text = value.replace("PORT", str(place.port)).replace("OUT", str(place.outside))
        lines[0]["event"]["options"][name] = text

    return edit


def event(kind: str, change: Callable[[Json], None]) -> Edit:
    """Change the first event of a kind."""

    def edit(lines: Lines, place: Place) -> None:
        change(next(line["event"] for line in lines if line["event"]["kind"] == kind))

    return edit


def line(change: Callable[[Json], None], number: int = 1) -> Edit:
    return lambda lines, place: change(lines[number])


def cases(*given: Json, times: int = 1) -> Edit:
    """The tester's cases."""

    def edit(lines: Lines, place: Place) -> None:
        suite = next(
            one["event"]["payload"]
            for one in lines
            if one["event"].get("payload", {}).get("kind") == "tests"
        )
        suite["cases"] = [*given] * times

    return edit


def dims(tokens: Any, d: Any) -> Json:
    extents = [{"name": "tokens", "value": tokens}, {"name": "d", "value": d}]
    return {"dims": extents, "dtype": "float32", "values": "normal", "why": ""}


def hidden(change: Callable[[Json], None], times: int = 1) -> Edit:
    """The first case that the judge is said to have drawn."""

    def edit(lines: Lines, place: Place) -> None:
        check = next(
            one["event"]["evaluation"]["check"] for one in lines if one["event"]["kind"] == "judged"
        )
        case = dict(check["visible"][0])
        change(case)
        check["hidden"] = [case] * times

    return edit


def task_file(name: str, text: str | None = None) -> Edit:
    """A file of the recorded task; by default a copy of its baseline."""

    def edit(lines: Lines, place: Place) -> None:
        event = lines[0]["event"]
        files = event["task"]["files"]
        sha = files["baseline.cu"]
        if text is not None:
            sha = hashlib.sha256(text.encode()).hexdigest()
            blob = {"kind": "blob", "sha256": sha, "text": text}
            lines.insert(1, {**lines[1], "event": blob})
            for number, one in enumerate(lines):
                one["seq"] = number
        files[name.replace("OUT", str(place.outside))] = sha

    return edit


def link(name: str, target: str) -> Edit:
    """A link beside the transcript, or in its place."""

    def edit(lines: Lines, place: Place) -> None:
        path = place.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target.replace("OUT", str(place.outside)))

    return edit


def raw(data: bytes, times: int = 1) -> Edit:
    """A file that is no transcript at all."""

    def edit(lines: Lines, place: Place) -> None:
        with place.file.open("wb") as file:
            for _ in range(times):
                file.write(data)

    return edit


def sparse(size: int) -> Edit:
    def edit(lines: Lines, place: Place) -> None:
        with place.file.open("wb") as file:
            file.truncate(size)

    return edit


def pipe(lines: Lines, place: Place) -> None:
    os.mkfifo(place.file)


def put(name: str, value: Any) -> Callable[[Json], None]:
    def change(found: Json) -> None:
        found[name] = value

    return change


def contradicted(lines: Lines, place: Place) -> None:
    """The chat says that a human approves, the options that nobody does."""
    opened = next(o["event"] for o in lines if o["event"].get("payload", {}).get("kind"))
    opened["payload"]["approval"] = True


def many_cases(lines: Lines, place: Place) -> None:
    """Lines with as many values as fit into lines that are short enough, as hungry for memory as
    any."""
    judged = next(one for one in lines if one["event"]["kind"] == "judged")
    small = {"dims": {}, "dtype": "float16"}
    judged["event"]["evaluation"]["check"]["visible"] = [small] * 100_000
    at = lines.index(judged)
    lines[at:at] = [judged] * 20


REJUDGE = ("replay", "FILE", "--rejudge", "--device", "virtual")
RERUN = ("replay", "FILE", "--rerun", "--device", "virtual", "-o", "NEW")
SHOW = ("replay", "FILE")
LIVE = "openai:o4-mini,base_url=http://127.0.0.1:PORT/v1"
TLS = "openai:o4-mini,base_url=https://127.0.0.1:PORT/v1,key_env=SECRET"
ACCEPT = ("run", "--resume", "FILE", "--accept-recorded-options")
HUGE = dims(10**9, 10**9)
TOO_LONG = "longer than"

FORGERIES: dict[str, Forgery] = {
    # addresses, keys, models
    "an address": Forgery(option("models", LIVE), "recorded address: http://127.0.0.1"),
    "an address with TLS": Forgery(option("models", TLS), "recorded address: https://127.0.0.1"),
    "a key variable": Forgery(option("models", TLS), "with the key: SECRET"),
    "a branch's address": Forgery(
        option("models", LIVE), "recorded address", ("run", "--branch", "FILE", "-o", "NEW")
    ),
    "one role's address": Forgery(
        option("models", f"scripted,coder={LIVE.replace(',base', ',coder.base')}"),
        "recorded address",
    ),
    "a paid model": Forgery(option("models", "openai:gpt-5"), "recorded models: openai:gpt-5"),
    "a budget": Forgery(option("budget", "usd=100000"), "recorded budget: usd=100000"),
    "a million rounds": Forgery(option("rounds", 10**6), "rounds"),
    "many rounds": Forgery(option("rounds", 9_999), "recorded rounds: 9999"),
    "a million mutants": Forgery(option("mutants", 10**6), "mutants"),
    "who approves": Forgery(contradicted, "contradicts itself"),
    "lines in an option": Forgery(option("models", "scripted\nastra-chat: all is well"), "models"),
    # paths
    "a recording": Forgery(option("models", "record:OUT/made:scripted"), "path of a recording"),
    "a recording, accepted": Forgery(
        option("models", "auto:OUT/made:scripted"), "path of a recording", ACCEPT
    ),
    "a played recording": Forgery(option("models", "replay:/etc/passwd"), "path of a recording"),
    "another user's words": Forgery(
        option("models", "transcript:/home/other/run/transcript.jsonl"),
        "recorded models: transcript:/home/other",
        ACCEPT,
    ),
    "words above": Forgery(
        option("models", "transcript:../x.jsonl"), "recorded models: transcript:../x.jsonl"
    ),
    "a file above": Forgery(task_file("../up.cu"), "points outside its folder"),
    "a file above, below": Forgery(
        task_file("a/../../up.cu"), "points outside its folder", REJUDGE
    ),
    "an absolute file": Forgery(task_file("OUT/made.cu"), "points outside its folder", RERUN),
    "a file with a NUL": Forgery(task_file("a\0b"), "points outside its folder", REJUDGE),
    "a file in a file": Forgery(task_file("baseline.cu/x"), "cannot be written", REJUDGE),
    "an endless name": Forgery(task_file("x" * 5000), "cannot be written", REJUDGE),
    "a list that is a field": Forgery(option("cases", "folder"), "options.cases", REJUDGE),
    "a baseline that is none": Forgery(
        option("tier", "../../x"), "options.tier", (*SHOW, "--prompts")
    ),
    # links
    "a link to a transcript": Forgery(link("transcript.jsonl", str(EXAMPLE)), "is a link"),
    "a link to a device": Forgery(link("transcript.jsonl", "/dev/zero"), "is a link", SHOW),
    "a link for the winner": Forgery(link("best.cu", "OUT/made"), "is a link"),
    "a link for the module": Forgery(link("best", "OUT"), "is a link"),
    "a link in the module": Forgery(link("best/README.md", "OUT/made"), "is a link"),
    "a link for the half": Forgery(link(".best.cu.part", "OUT/made"), "is a link"),
    # cases and sizes
    "huge dims": Forgery(cases(HUGE), "is outside", REJUDGE),
    "huge dims, resumed": Forgery(cases(HUGE), "is outside"),
    "legal but large": Forgery(cases(dims(65536, 8192)), "bytes are too many", REJUDGE),
    "negative dims": Forgery(cases(dims(-1, 64)), "is outside", REJUDGE),
    "a number without end": Forgery(cases(dims(10**4000, 64)), "too many digits", REJUDGE),
    "a million cases": Forgery(cases(dims(1, 64), times=10**6), TOO_LONG, REJUDGE),
    "nine cases": Forgery(cases(dims(1, 64), times=9), "9 cases are too many", REJUDGE),
    "a drawn pad": Forgery(hidden(put("pad", 10**12)), "pad", REJUDGE),
    "drawn pads": Forgery(hidden(put("pads", {"input": 10**12})), "pads must be", REJUDGE),
    "a drawn scalar": Forgery(hidden(put("scalars", {"eps": 1e300})), "scalars", REJUDGE),
    "many drawn": Forgery(hidden(put("seed", 1), times=1025), "1,025 cases are too many", REJUDGE),
    "hungry lines": Forgery(many_cases, "more than 1,000,000 values", SHOW),
    # times and counts
    "a negative time": Forgery(line(put("t", -1.0)), "t: ", SHOW),
    "an endless time": Forgery(line(put("t", 1e300)), "t: ", SHOW),
    "turns ahead": Forgery(line(put("turn", 10**6)), "lines are missing", SHOW),
    "an architecture with options": Forgery(
        event("header", lambda head: head["device"].update(arch="sm_90 -ccbin=/x")), "arch", SHOW
    ),
    "a text that is another": Forgery(
        event("blob", lambda blob: blob.update(text=blob["text"] + "\n")), "its hash does not match"
    ),
    # files
    "a pipe": Forgery(pipe, "not a regular file", SHOW),
    "a line without end": Forgery(sparse(2**27), TOO_LONG, SHOW),
    "a file without end": Forgery(sparse(2**40), "at most", SHOW),
    "quotes without end": Forgery(
        raw(b'{"' + b'\\"' * 2_000_000), "in its first line: not an Astra transcript", SHOW
    ),
    "nests": Forgery(raw(b"[" * 1_000_000 + b"\n"), "is not an Astra transcript", SHOW),
}
