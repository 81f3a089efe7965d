"""Drawn cases on which the baseline fails: which others are still tried, what is drawn instead, and
when too few are left to judge by.

A launcher that returns an error costs nothing: the recorder finds it out for all cases at once. A
call that crashes costs a process, so after a few of them only cases are tried that have more in
common with one that works than with one that does not.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.check.drawn_dims import Dims, legal_near
from astra_chat.tools.descriptions import describe, told_apart
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.task.domain import Combination
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import BuildFailed, Case, Crashed, TimedOut, Unsafe, Unsupported, Wrong

FLOOR, DTYPES_FLOOR = 0.5, 0.25
"""Shares of the drawn cases that must be judged, others drawn in the place of lost ones included;
and of those of one combination of dtypes, and without such others. On fewer a verdict says too
little to be `correct`."""
OTHER_DTYPES, OTHER_VALUES = 4.0, 0.5
"""How far apart cases are that differ in these, in octaves of an extent."""
NEARER = (0.5, 0.25)
"""How far from the working case towards the lost one what is drawn instead may lie: first try and
second."""


def unlaunched(runner: Runner, built: Build, cases: Sequence[Case]) -> list[Failed]:
    """Those of the cases on which the launcher returns an error; none of them is run."""
    recorded = runner.record(built, cases)
    return [
        Failed(case, one)
        for case, one in zip(cases, recorded, strict=True)
        if isinstance(one, Crashed) and one.case == case
    ]


def hopeful(
    missing: Sequence[Case], failed: Sequence[Case], passed: Sequence[Case]
) -> list[Failed | None]:
    """For each case None where it is nearer to one that passes than to one that fails; else that it
    is not tried, and near which one."""
    found: list[Failed | None] = []
    for case in missing:
        nearest = min(failed, key=lambda other: _distance(case, other))
        works = min((_distance(case, other) for other in passed), default=math.inf)
        near = _distance(case, nearest) <= works
        found.append(Failed(case, None, near=nearest) if near else None)
    return found


def _distance(one: Case, other: Case) -> float:
    """Octaves between extents; other dtypes and values count as some."""
    octaves = sum(
        abs(math.log2((1 + extent) / (1 + other.dims[name]))) for name, extent in one.dims.items()
    )
    dtypes = (one.dtype, one.types) != (other.dtype, other.types)
    values = (one.values, one.families) != (other.values, other.families)
    return octaves + OTHER_DTYPES * dtypes + OTHER_VALUES * values


def instead(
    task: Task, lost: Sequence[Case], passed: Sequence[Case], rng: random.Random, attempt: int = 0
) -> list[Case]:
    """For each lost case one with extents between its own and those of the nearest case that works;
    each case once, none that is known."""
    known = {case.key for case in (*lost, *passed)}
    drawn: dict[str, Case] = {}
    for case in lost:
        near = min(passed, key=lambda other: _distance(case, other), default=None)
        if near is None:
            continue
        made = _between(task, near, case, rng, NEARER[attempt])
        if made and made.dims != near.dims and made.key not in known:
            drawn[made.key] = made
    return list(drawn.values())


def _between(task: Task, works: Case, lost: Case, rng: random.Random, most: float) -> Case | None:
    kind = Combination.of(works)
    extents: Dims = {}
    for name, extent in works.dims.items():
        share = rng.uniform(0, most)
        within = math.exp((1 - share) * math.log1p(extent) + share * math.log1p(lost.dims[name]))
        extents[name] = task.dims[name].nearest(round(within - 1), kind.dtype)
    dims = legal_near(task, kind, extents)
    if dims is None:
        return None
    like = lost if Combination.of(lost) == kind else works
    made = like.model_copy(update={"dims": dims, "seed": 1 + rng.getrandbits(30)})
    plain = made.model_copy(update={"pad": 0, "pads": {}, "offset": 0, "offsets": {}})
    return next((case for case in (made, plain) if task.allows(case)), None)


def is_lost(failed: Failed) -> bool:
    """Whether nothing can be said of the case, as opposed to a baseline that is wrong there."""
    return not isinstance(failed.outcome, Wrong)


def below_floor(
    drawn: Sequence[Case], judged: Sequence[Case], failed: Sequence[Failed]
) -> Unsupported | None:
    """What to say in the place of `correct` where too few of the drawn cases could be judged.

    `judged` may hold others that were drawn in the place of lost ones; these alone are not enough,
    for they lie near such that work.
    """
    lacking = next(_lacking(drawn, judged), None)
    if lacking is None:
        return None
    which, got, wanted = lacking
    cause = next((one for one in failed if one.tried), next(iter(failed), None))
    first = f"; it fails on {cause.case.named}: {cause.cause}" if cause else ""
    what = (
        f"the baseline cannot be judged on enough {which}: {got} are left, but at least"
        f" {wanted} are needed{first}; repair the baseline, or narrow task.toml to what it supports"
    )
    return Unsupported(what=what, kernel="", opcode="", line=0)


def _lacking(drawn: Sequence[Case], judged: Sequence[Case]) -> Iterator[tuple[str, int, int]]:
    """Which cases are too few, how many there are, and how many are needed."""
    stated = {case.key for case in drawn}
    kept = sum(case.key in stated for case in judged)
    counts = [
        ("drawn cases", len(judged), math.ceil(FLOOR * len(drawn))),
        ("cases as they were drawn", kept, math.ceil(DTYPES_FLOOR * len(drawn))),
    ]
    for kind in dict.fromkeys(map(dtypes_text, drawn)):
        of_all, got = (sum(dtypes_text(case) == kind for case in some) for some in (drawn, judged))
        counts.append((f"drawn cases of {kind}", got, math.ceil(DTYPES_FLOOR * of_all)))
    yield from (count for count in counts if count[1] < count[2])


def dtypes_text(case: Case) -> str:
    """Returns the dtypes of a case as text: its own, then those of its further type variables."""
    return ", ".join((case.dtype, *(f"{name} {dtype}" for name, dtype in case.types.items())))


# Cases that the baseline fails, and what it did there.


@dataclass(frozen=True)
class Failed:
    """A case on which the baseline's own errors cannot be learned."""

    case: Case
    outcome: Wrong | Failure | BuildFailed | None
    """What the baseline did; None: it was not tried, because others had failed."""
    near: Case | None = None
    """Case near this one on which the baseline failed, so that this one was not tried."""

    @property
    def tried(self) -> bool:
        return self.outcome is not None

    @property
    def is_baselines(self) -> bool:
        """Whether it is the baseline that fails there, rather than the virtual GPU or a limit of
        time."""
        return isinstance(self.outcome, Wrong | Crashed | Unsafe)

    @property
    def cause(self) -> str:
        """What the baseline did, with all that is known of it."""
        match self.outcome:
            case Crashed(message=message):
                return message
            case Unsafe() | Wrong():
                return describe(self.outcome)
            case _:
                return self._reason()

    def __str__(self) -> str:
        return f"{self.case.label}: {self._reason()}"

    def _reason(self) -> str:
        match self.outcome:
            case None if self.near:
                return f"not tried: the baseline failed on {self.near.label}"
            case None:
                return "not tried"
            case BuildFailed():
                return "the baseline does not build"
            case Crashed(message=message):
                return f"the baseline crashed: {message}"
            case TimedOut():
                return "the baseline timed out"
            case Wrong() as wrong if wrong.reason in ("value", "nan_pattern", "precision"):
                place = ", ".join(map(str, wrong.index))
                theirs, own = told_apart(wrong.expected, wrong.got)
                what = f"first at {wrong.argument}[{place}]: {own} and {theirs}"
                return f"the baseline and the reference disagree, {what}"
            case other:
                return f"the baseline is {other.kind}"
