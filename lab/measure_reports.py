"""Seconds, memory and bytes of a report by the length of its run:
`python -m lab.measure_reports [TURNS ...]`.

Long runs are made of a recorded one: its rounds once more and once more, each kernel with another
last line, so that no two sources are the same.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from astra_chat.report.html import report
from astra_chat.tools.recordings.reading import read_recorded
from astra_chat.tools.types import sha256_of
from astra_chat.transcript import lines as bounds
from astra_chat.transcript.reader import migrated, read

EXAMPLE = (
    Path(__file__).parents[1] / "transcripts/recorded.tar.xz/examples/h200/fused_add_rmsnorm.jsonl"
)
LENGTHS = (50, 1_000, 10_000)
TURNS = ("message", "proposed", "build", "judged")

Line = dict[str, Any]


def joined(path: Path, turns: int, out: Path) -> Path:
    """Write a transcript of at least so many turns, made of the rounds of a recorded one."""
    lines = [migrated(json.loads(line)) for line in read_recorded(path).splitlines()]
    first = next(n for n, one in enumerate(lines) if _kind(one) == "message" and _plans(one))
    begin = next(n for n in range(first, -1, -1) if _kind(lines[n]) == "chosen")
    last = max(n for n, one in enumerate(lines) if _kind(one) in TURNS and not _confirms(one))
    events = [one["event"] for one in lines]
    found, rounds = lines[:begin], lines[begin : last + 1]
    each = sum(_kind(one) in TURNS for one in rounds)
    stored = {e["sha256"]: e["text"] for e in events if e["kind"] == "blob"}
    sources = {e["sha256"]: stored[e["sha256"]] for e in events if e["kind"] == "proposed"}
    begun = sum(_kind(one) in TURNS for one in found)
    for number in range(1, math.ceil((turns - begun) / each) + 1):
        found += _copy(rounds, sources, number)
    turn = 0
    with out.open("w") as file:
        for number, one in enumerate(found):
            turn += _kind(one) in TURNS
            line = {**one, "seq": number, "turn": turn, "t": float(number)}
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
    return out


def _copy(rounds: list[Line], sources: dict[str, str], number: int) -> Iterator[Line]:
    """The rounds with other sources: a comment at the end, and the hashes that follow from it."""
    kept = [one for one in rounds if _kind(one) != "blob"]
    text = json.dumps(kept)
    for old, source in sources.items():
        new = f"{source}// copy {number}\n"
        text = text.replace(old, sha256_of(new)).replace(old[:12], sha256_of(new)[:12])
        yield {**kept[0], "event": {"kind": "blob", "sha256": sha256_of(new), "text": new}}
    yield from json.loads(text)


def _kind(line: Line) -> str:
    return str(line["event"]["kind"])


def _plans(line: Line) -> bool:
    return bool(line["event"]["payload"]["kind"] == "plan")


def _confirms(line: Line) -> bool:
    return _kind(line) == "judged" and bool(line["event"]["evaluation"].get("confirms"))


def measured(path: Path) -> dict[str, float]:
    """Returns what this process, which does nothing else, needs to read a transcript and to write
    its report: seconds of CPU time and megabytes."""
    begun = time.process_time()
    transcript = read(path)
    loaded = time.process_time()
    page = report([transcript])
    done = time.process_time()
    return {
        "turns": transcript.records[-1].turn,
        "transcript_mb": path.stat().st_size / 1e6,
        "load_s": loaded - begun,
        "report_s": done - loaded,
        "page_mb": len(page.encode()) / 1e6,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def main() -> None:
    bounds.MAX_VALUES = 4_000_000  # 10,000 turns have more values than a reader takes
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measured(Path(sys.argv[2]))))
        return
    lengths = [int(word) for word in sys.argv[1:]] or LENGTHS
    print("  turns  transcript MB  load CPU s  report CPU s  page MB  memory MB")
    with tempfile.TemporaryDirectory() as folder:
        for turns in lengths:
            path = joined(EXAMPLE, turns, Path(folder) / f"{turns}.jsonl")
            asked = [sys.executable, "-m", __spec__.name, "--one", str(path)]
            done = subprocess.run(asked, capture_output=True, text=True, check=True)
            one = json.loads(done.stdout)
            print(
                f"{one['turns']:>7,} {one['transcript_mb']:>14.1f} {one['load_s']:>11.2f}"
                f" {one['report_s']:>13.2f} {one['page_mb']:>8.1f} {one['memory_mb']:>10.0f}"
            )


if __name__ == "__main__":
    main()
