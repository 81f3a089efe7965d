"""Twelve problems of KernelBench drawn by a seed, and their tasks.

    python -m lab.kernelbench KERNELBENCH [--seed 51] [--tasks FOLDER] [--check]

KERNELBENCH is a checkout's folder KernelBench, with level1, level2 and level3. Of each level the
files are sorted by their number, and `random.Random(seed)` samples six, four and two of them, in
this order. With --tasks, each becomes FOLDER/NAME as `astra-chat new` does; --check asks
`astra-chat tasks check --mutants 0` about it, too. A line of JSON is printed for each problem.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from astra_vgpu.ground.errors import BadInput
from lab.commands import one_line_errors

COUNTS = {1: 6, 2: 4, 3: 2}
LIMIT_S = 900.0


def drawn(folder: Path, seed: str) -> list[tuple[int, Path]]:
    """Level and file of each problem. Raises BadInput."""
    draws, found = random.Random(seed), list[tuple[int, Path]]()
    for level, count in COUNTS.items():
        files = [p for p in (folder / f"level{level}").glob("*.py") if number(p)]
        if len(files) < count:
            raise BadInput(f"{folder}/level{level} has fewer than {count} problems NUMBER_NAME.py")
        found += [(level, p) for p in draws.sample(sorted(files, key=number), count)]
    return found


def number(file: Path) -> int:
    """The number of a problem; 0 where it has none."""
    found = re.match(r"(\d+)_", file.name)
    return int(found[1]) if found else 0


def made(file: Path, name: str, folder: Path, check: bool) -> dict[str, Any]:
    """What came of `astra-chat new` and `tasks check`, with the seconds that each took."""
    new_s, said = _command(["new", name, "--from", str(file.resolve())], folder)
    comes = (folder / name / "task.toml").is_file()
    found: dict[str, Any] = {"comes": comes, "new_s": new_s, "said": "" if comes else said}
    if comes and check:
        words = ["tasks", "check", name, "--mutants", "0"]
        found["check_s"], found["check"] = _command(words, folder)
    return found


def _command(words: Sequence[str], folder: Path) -> tuple[float, str]:
    """Seconds of a command of astra-chat's, and the last line that it printed."""
    began_s = time.monotonic()
    command = [sys.executable, "-m", "astra_chat", *words]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S)
        lines = (done.stdout.strip() or done.stderr.strip()).splitlines() or [""]
    except subprocess.TimeoutExpired:
        lines = [f"no answer within {LIMIT_S:.0f} s"]
    return round(time.monotonic() - began_s, 1), lines[-1]


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", default="51")
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    for level, file in drawn(asked.folder, asked.seed):
        name = f"kb_{level}_{number(file)}"
        row: dict[str, Any] = {"name": name, "file": f"level{level}/{file.name}"}
        if asked.tasks:
            asked.tasks.mkdir(parents=True, exist_ok=True)
            row |= made(file, name, asked.tasks, asked.check)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
