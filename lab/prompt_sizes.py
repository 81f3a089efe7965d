"""What prompts cost: characters by role, of recorded runs, with the present code.

`python -m lab.prompt_sizes TRANSCRIPT...`: by role, from round 2 on, the
mean characters of a prompt, and of the sections in it that change during a run.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from astra_chat.agents.position import read_position
from astra_chat.replay.prompts import Prompt, prompts
from astra_chat.transcript.reader import read

STABLE = (
    "Task",
    "Timed cases, by their numbers",
    "How candidates are compared",
    "The launcher to export",
    "Headers of the task",
    "How the inputs of a case are drawn",
)
"""Sections that are the same in every prompt of a role in a run."""
FIRST_ROUND = 2


@dataclass(frozen=True)
class Size:
    """Characters of one prompt."""

    role: str
    round: int
    total: int
    changing: int
    """Characters of the sections that are not STABLE."""


def size_of(prompt: Prompt) -> Size | None:
    """Returns the size of a prompt; None for the selector, whose question has no sections."""
    position = read_position(prompt.user)
    if prompt.role == "selector" or position is None:
        return None
    parts = re.split(r"(?m)^(?=## )", prompt.user)
    stable = sum(len(part) for part in parts if part.startswith(tuple(f"## {s}" for s in STABLE)))
    total = len(prompt.user)
    return Size(prompt.role, position.round, total, total - stable)


def sizes(files: Iterable[Path], first: int = FIRST_ROUND) -> Iterator[Size]:
    """Yields the size of every prompt of these runs from round `first` on."""
    for file in files:
        for prompt in prompts(read(file)):
            size = size_of(prompt)
            if size is not None and size.round >= first:
                yield size


def table(measured: list[Size]) -> list[str]:
    """Markdown: a row for each role, and one for all."""
    lines = ["| role | prompts | characters, mean | of them changing |", "|---|---|---|---|"]
    roles = list(dict.fromkeys(size.role for size in measured))
    for role in (*roles, "all"):
        some = [size for size in measured if role in (size.role, "all")]
        if some:
            total, changing = (
                round(sum(values) / len(some))
                for values in ([s.total for s in some], [s.changing for s in some])
            )
            lines.append(f"| {role} | {len(some)} | {total:,} | {changing:,} |")
    return lines


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Characters of a run's prompts, by role.")
    parser.add_argument("files", nargs="+", type=Path, metavar="TRANSCRIPT")
    parser.add_argument("--from", type=int, default=FIRST_ROUND, dest="first", metavar="ROUND")
    given = parser.parse_args(arguments)
    for file in given.files:
        print(f"\n{file}\n")
        print("\n".join(table(list(sizes([file], given.first)))))


if __name__ == "__main__":
    main()
