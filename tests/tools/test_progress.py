"""What is shown of a step's progress never goes back."""

from __future__ import annotations

from itertools import pairwise

from astra_chat.tools.progress import ORACLE, StepCount

REPORTED = [
    (1, 158, ORACLE),
    (158, 158, ORACLE),
    (1, 3, ORACLE),
    (3, 3, ORACLE),
    (1, 158, "comparing"),
    (158, 158, "comparing"),
    (1, 59, ORACLE),
    (59, 59, ORACLE),
    (0, 1, "waiting"),
    (159, 217, "comparing"),
    (217, 217, "comparing"),
]
"""Phases of a check, each with a count of its own; the last one is continued."""


def test_phases_are_counted_together() -> None:
    count = StepCount()
    shown = [count.shown(*one) for one in REPORTED]
    assert all(before <= after for before, after in pairwise(done for done, _ in shown))
    assert all(before <= after for before, after in pairwise(total for _, total in shown))
    assert shown[:3] == [(1, 158), (158, 158), (159, 161)]
    assert shown[-1] == (158 + 3 + 158 + 59 + 59, 158 + 3 + 158 + 59 + 59)
