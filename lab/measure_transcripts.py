"""Times and sizes of long transcripts: `python -m lab.measure_transcripts`.

A long run is the recorded one with its rounds joined end to end, so that turns, evaluations and
sources are as large as real ones. Claims about seeds fail in it, since the same evaluations stand
there many times; verifying takes as long.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import chain, cycle
from pathlib import Path
from typing import Any

from astra_chat.analysis.recorded_run import load_transcript
from astra_chat.export.chats import chat_examples
from astra_chat.export.filters import Filter
from astra_chat.export.writing import json_lines
from astra_chat.tools.recordings.reading import read_recorded
from astra_chat.transcript import lines as bounds
from astra_chat.verify.verify import verify

RUN = Path(__file__).resolve().parents[1] / "transcripts/examples/virtual/silu_and_mul.jsonl.xz"
LENGTHS = (50, 1_000, 10_000)
TURNS = ("message", "proposed", "build", "judged")
FIRST_ROUND = 5
"""The turn that opens it."""


def joined(lines: list[dict[str, Any]], turns: int) -> Iterator[dict[str, Any]]:
    """Lines of a run of so many turns: the beginning, then its rounds again and again."""
    sources = [line for line in lines if line["event"]["kind"] == "blob" and line["turn"]]
    head = [one for one in lines if one["turn"] < FIRST_ROUND and one not in sources]
    rounds = [
        one
        for one in lines
        if one["turn"] >= FIRST_ROUND
        and one["event"]["kind"] not in ("blob", "spent", "ended")
        and not one["event"].get("evaluation", {}).get("confirms")
    ]
    seq = turn = 0
    for line in chain(head, sources, cycle(rounds)):
        turn += line["event"]["kind"] in TURNS
        if turn > turns:
            return
        yield {**line, "seq": seq, "turn": turn, "t": seq / 100}
        seq += 1


def main() -> None:
    """CPU seconds of each command's work, and the sizes of what it writes."""
    lines = [json.loads(line) for line in read_recorded(RUN).splitlines()]
    bounds.MAX_VALUES = 4_000_000  # 10,000 turns have more values than a reader takes
    with tempfile.TemporaryDirectory() as folder:
        for turns in LENGTHS:
            path = Path(folder) / f"{turns}.jsonl"
            with path.open("w") as file:
                for line in joined(lines, turns):
                    file.write(json.dumps(line, separators=(",", ":")) + "\n")
            print(f"{turns:,} turns, {path.stat().st_size / 1e6:.1f} MB: {_measured(path)}")


def _measured(path: Path) -> str:
    load_s, run = _timed(lambda: load_transcript(path))
    rows_s, rows = _timed(lambda: json_lines(run.evaluations))
    chats_s, chats = _timed(lambda: sum(len(json_lines([c])) for c in chat_examples(run, Filter())))
    verify_s, found = _timed(lambda: verify(run.transcript))
    return (
        f"load {load_s:.2f} s; rows of {len(rows) / 1e6:.1f} MB {rows_s:.2f} s; chat examples of"
        f" {chats / 1e6:.0f} MB {chats_s:.1f} s; {len(found.claims):,} claims {verify_s:.1f} s"
    )


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds, and what came of it."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


if __name__ == "__main__":
    main()
