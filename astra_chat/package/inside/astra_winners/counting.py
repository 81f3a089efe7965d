"""Counts of calls by operator and reason, kept in a file where the environment names one.

Engines end their processes by SIGKILL, after which nothing runs. So each count is written when it
is made: a line of fixed width, whose number is overwritten in place. Every process has its own
file, NAME.PID.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

VARIABLE = "ASTRA_WINNERS_COUNTERS"
TOOK, FELL_BACK, OFF = "took", "fell back", "off"
OTHER = "other reasons"
WIDTH = 14
MOST_REASONS = 100
"""Reasons of one process that are counted apart."""
log = logging.getLogger("astra_winners")


class Counters:
    """Counts of one process."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._file = -1
        self._end = 0
        self._counts: dict[tuple[str, str, str], list[int]] = {}

    def add(self, operator: str, what: str, reason: str = "") -> None:
        key = (operator, what, reason)
        entry = self._counts.get(key)
        if entry is None:
            if reason and len(self._counts) >= MOST_REASONS:
                key = (operator, what, OTHER)
            entry = self._counts.get(key) or self._begin(key)
        entry[0] += 1
        if self._name is not None:
            self._write(b"%*d" % (WIDTH, entry[0]), entry[1])

    def totals(self) -> dict[tuple[str, str, str], int]:
        return {key: count for key, (count, _) in self._counts.items()}

    def _begin(self, key: tuple[str, str, str]) -> list[int]:
        entry = self._counts[key] = [0, self._end]
        if self._name is not None:
            words = "\t".join(" ".join(word.split()) for word in key)
            line = b"%*d\t%s\n" % (WIDTH, 0, words.encode())
            self._write(line, self._end)
            self._end += len(line)
        return entry

    def _write(self, content: bytes, place: int) -> None:
        """A server goes on where its counters cannot be written."""
        try:
            if self._file < 0:
                path = f"{self._name}.{os.getpid()}"
                self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.pwrite(self._file, content, place)
        except OSError as error:
            log.warning("astra: no counters in %s: %s", self._name, error.strerror)
            self._name = None


COUNTERS = Counters(os.environ.get(VARIABLE))


def read(paths: Iterable[Path]) -> Counter[tuple[str, str, str]]:
    """The counts of all these files together. Raises OSError, and ValueError for other files."""
    found: Counter[tuple[str, str, str]] = Counter()
    for path in paths:
        for line in path.read_text().splitlines():
            count, operator, what, reason = line.split("\t")
            found[operator, what, reason] += int(count)
    return found


def lines(counts: Counter[tuple[str, str, str]]) -> list[str]:
    """A line for each count: operators by name, what took a call first."""
    order = (TOOK, FELL_BACK, OFF)
    rows = sorted(counts.items(), key=lambda row: (row[0][0], order.index(row[0][1]), -row[1]))
    return [
        f"{operator:28} {what:10} {count:>10}  {reason}".rstrip()
        for (operator, what, reason), count in rows
    ]
