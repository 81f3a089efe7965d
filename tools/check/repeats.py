"""Hidden cases as calls, and some of them called again: on other numbers at the same
addresses, and on the same numbers at others.

What a candidate remembers by address, by shape or by call shows as a wrong result, what differs
between equal calls as other bits.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from astra_chat.tools.check.calls import ON_A_GPU
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.requests import Call
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, DeviceKind

REPEATS: dict[DeviceKind, int] = {"virtual": 1, "cuda": 8}
"""Further calls on the same inputs, of one case a dtype. The virtual GPU runs blocks in one order,
so there a repeat shows what is kept between calls, but no race."""
MORE_REPEATS: dict[DeviceKind, int] = {"virtual": 0, "cuda": 4}
"""Up to so many are added, a number drawn at random: nobody knows which call is the last."""


def first_of_each_dtype(cases: Sequence[Case]) -> list[Case]:
    """The first drawn case of each combination of dtypes whose values are the usual ones."""
    first: dict[tuple[str, ...], Case] = {}
    for case in cases:
        if case.values == "normal" and not case.families:
            first.setdefault((case.dtype, *case.types.values()), case)
    return list(first.values())


def with_repeats(
    task: Task,
    hidden: Sequence[OracleCase],
    pairs: Sequence[tuple[Case, Case]],
    kind: DeviceKind,
    rng: random.Random,
    first_turn: int,
) -> list[Call]:
    """Calls of the hidden cases, small ones first, then those of pairs that are repeated. The
    second of each pair has no call of its own. Their turns count from the first."""
    known = {t.case.key: t for t in hidden}
    keys = [(first.key, second.key) for first, second in pairs]
    seconds = {second for _, second in keys}
    calls = [Call(t, hidden=True) for key, t in known.items() if key not in seconds]
    calls.sort(key=lambda call: task.least_bytes(call.oracle_case.case))
    for first, second in keys:
        if first in known and second in known:
            calls += _repeats(known[first], known[second], kind, rng)
    return [replace(call, turn=turn) for turn, call in enumerate(calls, first_turn)]


def _repeats(
    first: OracleCase, second: OracleCase, kind: DeviceKind, rng: random.Random
) -> list[Call]:
    """Calls of two cases that differ in their numbers only."""
    calls = [
        Call(first, hidden=True),
        Call(second, "same_buffers", hidden=True),
        Call(second, hidden=True),
        Call(first, "same_buffers", hidden=True),
    ]
    if kind == "cuda":
        calls += [Call(one, how, hidden=True) for how in ON_A_GPU for one in (first, second)]
    times = REPEATS[kind] - 1 + rng.randint(0, MORE_REPEATS[kind])
    return calls + [Call(first, hidden=True)] * times
