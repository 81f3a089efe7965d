"""Judges published kernels of others again, and writes a table: docs/research/field.md.

Nothing of a set is stored: it is read from the folder that the user fetched.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path

from astra_chat.tools.entropy import nonce
from astra_chat.tools.walled.processes import Judging, judge
from lab.commands import one_line_errors
from lab.rejudge.sets import pairs
from lab.rejudge.table import document, row


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.rejudge", description=__doc__)
    parser.add_argument("folder", type=Path, help="A set's folder, or a file of CUDA-L1's.")
    parser.add_argument("--device", default="cuda:0", help="cuda:0, or cpu.")
    parser.add_argument("--seed", default="", help="Seed of all inputs; drawn if it is not given.")
    parser.add_argument("--only", default="", help="Pairs whose name holds this text.")
    parser.add_argument("--draw", type=int, default=0, help="So many pairs, drawn by the seed.")
    parser.add_argument("--cuda-only", action="store_true", help="Candidates that hold CUDA text.")
    parser.add_argument("--no-time", action="store_true", help="Check only.")
    parser.add_argument("--no-compile", action="store_true", help="No torch.compile.")
    parser.add_argument("--timeout", type=float, default=300.0, help="Seconds for a pair.")
    parser.add_argument("--out", type=Path, help="The table, OUT.json and OUT.md.")
    given = parser.parse_args()
    seed = given.seed or nonce()
    how = Judging(given.device, seed, not given.no_time, not given.no_compile, given.timeout)
    found = [one for one in pairs(given.folder) if given.only in one.name]
    if given.cuda_only:
        found = [one for one in found if "__global__" in one.candidate]
    if given.draw:
        found = random.Random(seed).sample(found, min(given.draw, len(found)))
    rows = []
    for one in found:
        said = {} if one.left_out else judge(one.problem, one.candidate, how)
        rows.append(row(one, said, how))
        print(f"{one.name}: {rows[-1]['outcome']}: {rows[-1]['reason']}", file=sys.stderr)
        if given.out:
            given.out.with_suffix(".json").write_text(json.dumps(rows, indent=1))
            given.out.with_suffix(".md").write_text(document(rows, how))
    if not given.out:
        print(document(rows, how), end="")


if __name__ == "__main__":
    main()
