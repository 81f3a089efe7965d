"""Judge kernels that others published, and write a row for each: docs/research/field.md.

Nothing of a set is stored here: it is read from the folder that the user fetched. Each row is
appended to OUT.jsonl immediately, and OUT.md is a table of them. A pair that already has a row
there is judged again only if the row says that it was not judged.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from astra_chat.tools.entropy import nonce
from astra_chat.tools.system.files import write_whole
from astra_chat.tools.types import candidate_id
from astra_chat.tools.walled.processes import AFTER_S, Judging, judge
from astra_vgpu.ground.errors import BadInput
from lab.commands import one_line_errors
from lab.rejudge.published import PublishedPair
from lab.rejudge.sets import pairs
from lab.rejudge.table import NOT_JUDGED, document, row

SHORTEST_S = 20.0
"""With less time than this left, no further pair is begun."""
CUTLASS = ("cutlass", "cutlass_src", "cutlass_local", "cutlass_3.9")
"""Where published candidates look for CUTLASS beside their file."""


class Rows:
    """The rows of a file, which grows."""

    def __init__(self, out: Path | None, how: Judging, name: str) -> None:
        self._out, self._how, self._name = out, how, name
        self._lock = threading.Lock()
        known = self._file("jsonl")
        lines = known.read_text().splitlines() if known and known.is_file() else []
        try:
            self.rows: list[dict[str, Any]] = [json.loads(line) for line in lines if line]
            self.judged = {
                (one["name"], one["candidate"])
                for one in self.rows
                if one["outcome"] != NOT_JUDGED or one["final"]
            }
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{known} contains no rows of this command: {error!r}") from None

    def _file(self, suffix: str) -> Path | None:
        return self._out.with_name(f"{self._out.name}.{suffix}") if self._out else None

    def add(self, one: dict[str, Any]) -> None:
        """Writes a row, which replaces an older one of its pair."""
        with self._lock:
            one = {"set": self._name, **one}
            self.rows = [old for old in self.rows if old["name"] != one["name"]] + [one]
            print(f"{one['name']}: {one['outcome']}: {one['reason']}", file=sys.stderr, flush=True)
            texts = {
                "jsonl": "".join(json.dumps(kept) + "\n" for kept in self.rows),
                "md": document(self.rows, self._how),
            }
            for suffix, text in texts.items():
                if path := self._file(suffix):
                    write_whole(path, text.encode())


def judged(pair: PublishedPair, how: Judging, until_s: float) -> dict[str, Any]:
    """The row of a pair, whatever happens. `until_s`: when all ends, by time.monotonic."""
    began_s = time.monotonic()
    left_s = until_s - began_s - AFTER_S
    found: dict[str, Any] = {}
    if not pair.left_out and left_s < SHORTEST_S:
        found = {"problem": "there was no time left for it"}
    elif not pair.left_out:
        limited = dataclasses.replace(how, timeout_s=min(how.timeout_s, left_s))
        try:
            found = judge(pair.problem, pair.candidate, limited)
        except (OSError, ValueError, RuntimeError) as error:
            found = {"problem": f"{type(error).__name__}: {error}"[:200]}
    final = bool(pair.left_out or (found.get("findings") and "unfinished" not in found))
    taken_s = round(time.monotonic() - began_s, 1)
    return {**row(pair, found, how), "final": final, "taken_s": taken_s}


def chosen(asked: argparse.Namespace, seed: str) -> list[PublishedPair]:
    """The pairs that the options name. Raises BadInput."""
    found = [one for one in pairs(asked.folder) if asked.only in one.name]
    if asked.cuda_only:
        found = [one for one in found if "__global__" in one.candidate]
    if asked.draw:
        found = random.Random(seed).sample(found, min(asked.draw, len(found)))
    try:
        part, parts = map(int, asked.part.split("/"))
        if not 1 <= part <= parts:
            raise ValueError
    except ValueError:
        raise BadInput(f"--part {asked.part}: it must be K/N with 1 <= K <= N") from None
    if parts > 1 and asked.draw and not asked.seed:
        raise BadInput(
            "--part requires --seed if pairs are drawn, because each part must draw the same ones"
        )
    return found[part - 1 :: parts]


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab.rejudge", description=__doc__)
    parser.add_argument("folder", type=Path, help="The folder of a set, or a file of CUDA-L1.")
    parser.add_argument("--device", default="cuda:0", help="Device to judge on: cuda:0 or cpu.")
    parser.add_argument("--seed", default="", help="Seed for all inputs; fresh by default.")
    parser.add_argument(
        "--only", default="", help="Judge only pairs whose names contain this text."
    )
    parser.add_argument(
        "--draw", type=int, default=0, help="Judge this many pairs, drawn with the seed."
    )
    parser.add_argument(
        "--cuda-only", action="store_true", help="Judge only candidates that contain CUDA code."
    )
    parser.add_argument(
        "--part", default="1/1", metavar="K/N", help="Judge every Nth pair, starting with the Kth."
    )
    parser.add_argument(
        "--workers", type=int, default=1, help="Number of pairs to judge at the same time."
    )
    parser.add_argument("--no-time", action="store_true", help="Check only; do not time.")
    parser.add_argument("--no-compile", action="store_true", help="Do not time torch.compile.")
    parser.add_argument(
        "--compilations",
        type=int,
        default=3,
        help="How many times to run torch.compile; the fastest result counts.",
    )
    parser.add_argument(
        "--limit-s", type=float, default=300.0, help="Time limit per pair in seconds."
    )
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="Time limit for all pairs in seconds."
    )
    parser.add_argument(
        "--cutlass", type=Path, help="Folder of CUTLASS, for candidates that include it."
    )
    parser.add_argument("--set", default="", help="Name of the set, as written to its rows.")
    parser.add_argument(
        "--turns", type=Path, help="Folder of the lock that commands on one GPU share."
    )
    parser.add_argument("--out", type=Path, help="Write OUT.jsonl and OUT.md.")
    return parser


def all_judged(
    found: Sequence[PublishedPair], rows: Rows, how: Judging, asked: argparse.Namespace
) -> None:
    until_s = time.monotonic() + asked.seconds
    with ThreadPoolExecutor(max(1, asked.workers)) as pool:
        list(pool.map(lambda pair: rows.add(judged(pair, how, until_s)), found))


@one_line_errors()
def main() -> None:
    asked = options().parse_args()
    seed = asked.seed or nonce()
    cutlass = asked.cutlass.resolve() if asked.cutlass else None
    with tempfile.TemporaryDirectory(prefix="astra-turns-") as turns:
        turns = str(asked.turns.resolve()) if asked.turns else turns
        how = Judging(
            asked.device,
            seed,
            not asked.no_time,
            not asked.no_compile,
            asked.limit_s,
            more={"compilations": asked.compilations, "turns": turns},
            write=(Path(turns),),
            beside=dict.fromkeys(CUTLASS, cutlass) if cutlass else {},
        )
        rows = Rows(asked.out, how, asked.set or asked.folder.stem)
        found = chosen(asked, seed)
        todo = [one for one in found if (one.name, candidate_id(one.candidate)) not in rows.judged]
        all_judged(todo, rows, how, asked)
        if not asked.out:
            print(document(rows.rows, how), end="")


if __name__ == "__main__":
    main()
