"""Rows of calls that share them, bit for bit: what [batch_invariant] of a contract promises."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from astra_chat.tools.case import SEED_BITS
from astra_chat.tools.check.drawn_dims import Dims, most_units, odd, within_bytes
from astra_chat.tools.check.floats import Array, as_float, as_int, ulp
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.task.batch_invariance import BatchInvariant, larger, taken
from astra_chat.tools.task.domain import Combination
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import ITEM_BYTES, Case, DeviceKind, ValueFamily, Wrong, is_float


@dataclass
class _Known:
    """Rows of one result of a large call, as earlier calls left them."""

    bits: Array
    """uint8 [rows of the large call, bytes of a row]."""
    by: Array
    """For each of these bytes the number of the call that wrote it first; -1: none did."""


@dataclass
class SameRows:
    """Compares each row of a call with the same row in the calls before."""

    task: Task
    compared: int = 0
    """Rows whose bits were compared with those of another call."""
    _calls: list[Case] = field(default_factory=list)
    _known: dict[tuple[str, str], _Known] = field(default_factory=dict)
    """Rows by the key of the large call and the name of the result."""

    def look(self, run: CaseRun) -> Wrong | None:
        """Returns what is wrong where a row has other bits than in an earlier call."""
        rule, case = self.task.batch_invariant, run.oracle_case.case
        if rule is None:
            return None
        whole = larger(case, rule.rows) if case.rows_of else case
        places = np.array(taken(case, rule.rows), np.int64)
        self._calls.append(case)
        met: Array = np.zeros(len(places), np.bool_)
        for arg in self.task.args:
            if arg.name in rule.outputs and arg.present(case):
                shape = (len(places), -1)
                content = run.after(arg)[0].reshape(shape)
                covered = run.coverage(arg)
                ran = np.ones(content.shape, np.bool_) if covered is None else covered
                key = whole.key, arg.name
                known = self._known.setdefault(key, _nothing(whole.dims[rule.rows], content))
                if wrong := self._differs(arg, places, content, ran.reshape(shape), known):
                    return wrong
                met = met | _added(known, places, content, ran.reshape(shape), len(self._calls) - 1)
        self.compared += int(met.sum())
        return None

    def _differs(
        self, arg: Arg, places: Array, content: Array, ran: Array, known: _Known
    ) -> Wrong | None:
        """The first row that differs, beside the call that left it otherwise."""
        both = ran & (known.by[places] >= 0)
        differing = (content != known.bits[places]) & both
        if not differing.any():
            return None
        case = self._calls[-1]
        row = int(np.flatnonzero(differing.any(axis=1))[0])
        item = ITEM_BYTES[arg.dtype_of(case)]
        bad = differing[row].reshape(-1, item).any(axis=1)
        first = int(np.flatnonzero(bad)[0])
        earlier = self._calls[int(known.by[places[row], np.flatnonzero(differing[row])[0]])]
        here, there = (_numbers(arg, case, one) for one in (content[row], known.bits[places[row]]))
        return Wrong(
            case=case,
            argument=arg.name,
            reason="batch_variant",
            index=(row, *map(int, np.unravel_index(first, arg.shape_of(case)[1:] or (1,)))),
            expected=float(there[first]),
            got=float(here[first]),
            bad=int(bad.sum()),
            total=len(bad),
            note=self._note(arg, row, int(places[row]), earlier, _apart(arg, case, here, there)),
        )

    def _note(self, arg: Arg, row: int, place: int, earlier: Case, apart: str) -> str:
        """Which row it is in either call, of how many, and how far apart its bits are."""
        rule, case = self.task.batch_invariant, self._calls[-1]
        assert rule is not None
        before = taken(earlier, rule.rows).index(place)
        return (
            f"row {row} of {arg.name} with {rule.rows} = {case.dims[rule.rows]} and row {before}"
            f" with {rule.rows} = {earlier.dims[rule.rows]} are the same row, but their bits differ"
            f"{apart}: the order of a sum may depend on the row's length, never on {rule.rows}"
        )


def _nothing(rows: int, content: Array) -> _Known:
    shape = rows, content.shape[1]
    return _Known(np.zeros(shape, np.uint8), np.full(shape, -1, np.int16))


def _added(known: _Known, places: Array, content: Array, ran: Array, number: int) -> Array:
    """Keep what a call is the first to write; which of its rows had been there."""
    by, bits = known.by[places], known.bits[places]
    met = np.any((by >= 0) & ran, axis=1)
    first = ran & (by < 0)
    bits[first], by[first] = content[first], number
    known.by[places], known.bits[places] = by, bits
    return np.asarray(met)


def _numbers(arg: Arg, case: Case, row: Array) -> Array:
    dtype = arg.dtype_of(case)
    content = np.ascontiguousarray(row)
    return as_float(content, dtype) if is_float(dtype) else as_int(content, dtype)


def _apart(arg: Arg, case: Case, here: Array, there: Array) -> str:
    """How far apart two rows are, such as " by up to 2 ulps"."""
    with np.errstate(invalid="ignore"):
        larger_one = np.maximum(np.abs(here), np.abs(there))
        off = np.abs(here - there) / ulp(larger_one, arg.dtype_of(case))
    finite = off[np.isfinite(off)]
    most = int(finite.max(initial=0.0))
    return f" by up to {most} ulp{'s' * (most != 1)}" if most else ""


# Calls that share rows, for contracts that promise a row the same bits in every batch.
#
# A group is one large call and others on some of its rows, in another order: single rows, numbers
# of rows that are served, and those with which the candidate's code compares. Whatever chooses its
# way by the number of rows takes another one for some of them. A sum in another order moves few
# results of 16 bits, so small calls are several, and the dtype with the smallest steps has a large
# group.

LARGE_BYTES: dict[DeviceKind, int] = {"virtual": 2**25, "cuda": 2**26}
"""Most bytes of a large call: rows of a served length beyond the numbers of them at which kernels
change their way."""
SMALL_BYTES, ODD_ROW_BYTES = 2**21, 2**12
"""Most bytes of another first call of a group, and of one row there whose length is drawn."""
FAMILIES: tuple[ValueFamily, ...] = ("normal", "normal", "heavy_tail", "large")
"""Numbers of which a sum in another order has other bits, and no NaN."""
KNOWN, SERVED = 6, 2
"""Most numbers of rows of a group that the candidate knows by heart, and that are served."""
LONGEST_OF = 4
"""Lengths that are drawn, of which the longest is taken: short rows have but one order."""
MOST_ROWS = 2**13
"""Most rows of a call."""
MANY_ROWS, MANY_BYTES = 2560, 84 * 2**20
"""Rows of a group, of which FEWER leaves more than 16 for each of 148 multiprocessors: a kernel may
add up rows in another way there; and most bytes that its large call reads and writes."""
DRAWS = {1: 8, 2: 4}
"""Calls of so many rows, and of all others one."""
FEWER = 16
"""Up to one in so many of the most rows that fit are left away, so that large calls have no round
number of them."""


def row_cases(
    task: Task,
    device: DeviceKind,
    rng: random.Random,
    known: Sequence[int] = (),
    *,
    confirming: bool = False,
) -> list[Case]:
    """The calls of all groups, a large one first and then those on its rows. `known`: sizes that
    the candidate's code compares with. Each combination of dtypes has a group of rows of a served
    length and one of a drawn length; the first is large for one that is drawn and for the most
    precise, and to confirm a winner for all. The most precise, and to confirm all, also have one of
    MANY_ROWS, of a served length with which these fit."""
    rule = task.batch_invariant
    if rule is None:
        return []
    name = rule.rows
    precise = max(task.combinations, key=lambda kind: ITEM_BYTES[kind.dtype])
    large = task.combinations if confirming else (rng.choice(task.combinations), precise)
    extents: list[tuple[Combination, Dims, int]] = []
    for kind in task.combinations:
        served = dict(rng.choice([case.dims for case, _ in (*task.bench, *task.demo)]))
        extents.append((kind, served, LARGE_BYTES[device] if kind in large else SMALL_BYTES))
        odd_ones = [odd(task, kind, rng, ODD_ROW_BYTES) for _ in range(LONGEST_OF)]
        longest = max(odd_ones, key=lambda dims: task.size_bytes(kind.case({**dims, name: 1})))
        extents.append((kind, longest, SMALL_BYTES))
    for kind in task.combinations if confirming else (precise,):
        sizes = {
            task.size_bytes(kind.case(dims)): dims
            for case, _ in (*task.bench, *task.demo)
            for dims in [{**case.dims, name: MANY_ROWS}]
        }
        fit = sorted(size for size in sizes if size <= MANY_BYTES)
        if fit:
            size = rng.choice(fit)
            extents.append((kind, {**sizes[size], name: 1}, size))
    return [
        case
        for kind, dims, most in extents
        for case in _group(task, rule, kind, dims, most, known, rng)
    ]


def _group(
    task: Task,
    rule: BatchInvariant,
    kind: Combination,
    dims: Dims,
    most: int,
    known: Sequence[int],
    rng: random.Random,
) -> Iterator[Case]:
    """One large call, and others on its rows."""
    dim = task.dims[rule.rows]
    step = dim.step(kind.dtype)
    high = most_units(task, kind, dims, rule.rows, within_bytes(task, kind, most)) * step
    high = min(high, MOST_ROWS)
    rows = dim.nearest(max(1, high - rng.randrange(high // FEWER + 1)), kind.dtype)
    scalars = {s.name: rng.choice(s.named) for s in task.scalars if s.varies}
    whole = kind.case({**dims, rule.rows: rows}).model_copy(
        update={
            "seed": 1 + rng.getrandbits(SEED_BITS),
            "values": rng.choice(FAMILIES),
            "scalars": scalars,
        }
    )
    if not task.allows(whole):
        return
    yield whole
    for count in _counts(task, rule, rows, known, rng):
        fewer = {"dims": {**whole.dims, rule.rows: count}, "rows_of": rows}
        for draw in range(DRAWS.get(count, 1) if count < rows else 1):
            part = whole.model_copy(update={**fewer, "rows_draw": draw})
            if task.allows(part):
                yield part


def _counts(
    task: Task, rule: BatchInvariant, rows: int, known: Sequence[int], rng: random.Random
) -> list[int]:
    """Numbers of rows of the calls beside one of `rows`."""
    served = {case.dims[rule.rows] for case, _ in (*task.bench, *task.demo)}
    served = {count for count in served if 1 < count < rows}
    by_heart = [size for size in dict.fromkeys(known) if 1 < size <= rows]
    found = [*DRAWS, round(math.exp(rng.uniform(0.0, math.log(rows))))]
    found += rng.sample(sorted(served), min(SERVED, len(served)))
    found += rng.sample(by_heart, min(KNOWN, len(by_heart)))
    return sorted({count for count in found if count <= rows})
