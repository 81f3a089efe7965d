"""Successive halving: many candidates on few cases, the better half of them on more.

Measurements have noise, and most of the candidates of a tuning space are clearly slower than the
best: two cases are enough to drop them. What was measured of a candidate is not measured again; a
round adds cases, and the ratio that decides is over all cases so far. Who is left is judged in full
afterwards, so nothing that halving says is a result.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence

from astra_chat.tools.check.hidden_cases import Weighted
from astra_chat.tools.task.folder import Task
from astra_chat.tools.timing.intervals import mean
from astra_chat.tools.tuning.halving_rounds import Dropped, Halving, HalvingRound
from astra_chat.tools.types import AnyTime, Outcome, candidate_id
from astra_chat.tools.wording import counted

TimeOn = Callable[[str, Weighted], list[AnyTime] | Outcome]
"""Times a source on cases, or says what ended it."""
FEWEST_CASES = 2
"""Fewest cases of a round, where the task has as many."""
KEPT = 2
"""Candidates that are left at the end, and judged in full."""


def halved(
    task: Task,
    time_on: TimeOn,
    sources: Sequence[str],
    weighted: Weighted,
    kept: int = KEPT,
    tell: Callable[[str, int, int], None] = lambda *_: None,
) -> Halving:
    """Halve these sources on cases of `weighted` until at most `kept` are left. `time_on` is the
    judge's `time`; raises what that raises."""
    by_name = {candidate_id(source): source for source in sources}
    order = spread(task, weighted)
    left, rounds = list(by_name), list[HalvingRound]()
    times: dict[str, list[AnyTime]] = {name: [] for name in left}
    for most, until in schedule(len(left), len(order), kept):
        if len(left) <= kept:
            break
        began, entered, failed = time.monotonic(), len(left), list[Dropped]()
        done = len(times[left[0]])
        for number, name in enumerate(left):
            tell(f"measured on {until} of {counted(len(order), 'case')}", number, entered)
            found = time_on(by_name[name], order[done:until]) if until > done else []
            if isinstance(found, list):
                times[name] += found
            else:
                failed.append(Dropped(candidate=name, ratio=None, failed=found.kind))
        out = {one.candidate for one in failed}
        ratios = {n: mean([(t.ratio, t.weight) for t in times[n]]) for n in left if n not in out}
        ranked = sorted(ratios, key=lambda name: -ratios[name])
        slower = [Dropped(candidate=name, ratio=ratios[name]) for name in ranked[most:]]
        left = ranked[:most]
        rounds.append(
            HalvingRound(
                entered=entered,
                cases=until,
                timings=entered * (until - done),
                seconds=time.monotonic() - began,
                dropped=(*slower, *failed),
            )
        )
    return Halving(rounds=tuple(rounds), left=tuple(left))


def schedule(candidates: int, cases: int, kept: int) -> Iterator[tuple[int, int]]:
    """Yields for each round the most candidates that go on, and the cases on which they are
    compared. Cases double as candidates are halved; the last round has them all."""
    rounds = max(1, math.ceil(math.log2(max(candidates, 1) / kept)))
    for number in range(rounds):
        candidates = max(kept, math.ceil(candidates / 2))
        until = math.ceil(cases / 2 ** (rounds - 1 - number))
        yield candidates, min(cases, max(FEWEST_CASES, until))


def spread(task: Task, weighted: Weighted) -> Weighted:
    """The cases in an order of which each beginning is a sample of all: sizes at even distances of
    their weights."""
    by_size = sorted(weighted, key=lambda one: task.least_bytes(one[0]))
    total = sum(weight for _, weight in by_size) or 1.0
    middles, before = list[float](), 0.0
    for _, weight in by_size:
        middles.append((before + weight / 2) / total)
        before += weight
    places, number = list[int](), 1
    while len(places) < len(by_size):
        target, number = _halves(number), number + 1
        open_places = (place for place in range(len(by_size)) if place not in places)
        places.append(min(open_places, key=lambda place: abs(middles[place] - target)))
    return tuple(by_size[place] for place in places)


def _halves(number: int) -> float:
    """1/2, 1/4, 3/4, 1/8, 5/8, ...: the van der Corput sequence."""
    value, step = 0.0, 0.5
    while number:
        value, step, number = value + step * (number % 2), step / 2, number // 2
    return value
