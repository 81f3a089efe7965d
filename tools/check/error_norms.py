"""Precision: a kernel's error against the baseline's own, in units in the last place (ulps).

The error norm of an argument on a case is the root mean square of |got - expected| over an ulp at
max(|expected|, rms of all expected). Elements far below the rest are measured on the scale of the
whole, because cancellation makes their own ulps arbitrarily small: by those, an honest float32
kernel of silu_and_mul errs by a million.

An rms hardly separates 16-bit arithmetic from float32 arithmetic that is rounded once: the one
rounding is most of the error of both. The share of results that are not the nearest 16-bit value
does. Of honest kernels it was 4 % at most (of the baselines 2 %), of silu_and_mul in half precision
12 to 50 %, case by case.

A single number says little: the baseline may be exact at random, so that every other kernel's error
is many of its ulps. So the baseline's norm on a case of few results is taken over runs on several
seeds, and the scale of their results is the case's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from astra_chat.tools.check.bands import (
    MOST_NEEDED,
    has_band,
    inside_share,
    is_narrow,
    needed,
    outside_band,
)
from astra_chat.tools.check.column_bias import ColumnBias
from astra_chat.tools.check.error_pattern import imprecise
from astra_chat.tools.check.floats import FRACTION_BITS, Array, ulp
from astra_chat.tools.check.measured_values import MeasuredPiece, coded, measured_args, piece
from astra_chat.tools.check.norm import Norm as Norm
from astra_chat.tools.check.norm import off_nearest
from astra_chat.tools.evaluation import ErrorNorm
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import is_stated
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import Case, DTypeName, ValueFamily, Wrong

ROW_ULPS = 3.0
"""What float32 arithmetic may add that is common to a row, in float32's ulps: a scale that is off
by some ulps puts every element of its row off, so a case tells as much as it has rows."""
LUCK = 2.0
"""How far the norms of two honest kernels may differ by chance, over the root of the elements
that they rest on. Twelve large elements in six rows were met a factor of 3.1 apart."""

EQUAL_TERMS: tuple[ValueFamily, ...] = ("one_hot", "binary")
"""Families of inputs with two values. Equal terms are rounded alike as long as their sum does not
reach the next power of two, so the error of a sum grows with their number instead of its root: a
serial float32 sum of n of them was off by n / 13 ulps in the median of 300 and n / 4 at worst."""
EQUAL_TERMS_ULPS = 1024.0
"""What that may be, in float32's ulps: such a sum of 4,096."""
FEW = 8
"""Results, fewer of which tell nothing of a baseline's errors: the norm over eight normal ones is
below a third of what it stands for once in a thousand times, that of one every fourth time."""
FREE_SHARE = 0.025
"""The least share of a 16-bit result that a baseline is taken to have off the nearest value: at an
oracle_ratio of 2, float32's last 200 ulps are not held against anyone where it is float16. A task
whose kernels may round in between says so by a larger ratio."""
HEADROOM = 2.0
"""Times the band that the baseline needs: the few results that it is known by are not its worst."""
SHARE_SIGMAS = 3.0
"""What chance adds to a share of few values."""
CODE_BITS = 7
"""Bits of an integer code's magnitude."""
EXACT_SHARE = 0.9
"""Share of a baseline's results on zeros and ones that have to be exact for them to be taken for
sums."""
MIN_VALUES = 100
"""Fewer different results make no share: rows of one-hot inputs are right or off all together."""


@dataclass(frozen=True)
class MeasuredRun:
    """What one run of the baseline says of its errors."""

    case: Case
    pieces: Mapping[str, MeasuredPiece]
    """Results, by argument."""
    band: Mapping[str, float]
    """How many times as wide as stated its results need the band, by argument."""
    precision: PrecisionSeen
    norms: Mapping[str, Norm] | None
    """None where nothing is kept but that the baseline is right there; empty on a further seed."""
    equal: EqualResults | None
    """What is found in equal results; None where a look at them might find something else."""


@dataclass(frozen=True)
class EqualResults:
    """What is found in results on a case that equal the baseline's byte for byte."""

    digest: bytes
    """The sha256 of these bytes, as of CaseRun.digest."""
    worst: float
    """The worst |got - expected| / tolerance."""
    precision: PrecisionSeen
    counts: Mapping[str, int]
    """Elements whose errors are measured, by argument."""
    error: ErrorNorm | None = None
    """The error norm nearest to its limit, by what is known of all cases."""


class _Limits(NamedTuple):
    """What the baseline's errors allow a candidate in an argument on a case."""

    own_ulps: float
    """The baseline's norm, in ulps."""
    ulps: float
    own_share: float
    """The baseline's share of results off the nearest values."""
    share: float

    def allow(self, norm: Norm) -> bool:
        return norm.ulps <= self.ulps and self.allow_share(norm)

    def allow_share(self, norm: Norm) -> bool:
        return norm.share <= self.share or norm.values < MIN_VALUES

    def error(self, arg: Arg, case: Case, norm: Norm) -> ErrorNorm:
        return ErrorNorm(
            case=case,
            argument=arg.name,
            candidate_ulps=norm.ulps,
            baseline_ulps=self.own_ulps,
            limit_ulps=self.ulps,
        )


@dataclass(frozen=True)
class _Pool:
    """The baseline's errors in an argument over all known cases of one dtype and family."""

    known: bool
    """Whether there is such a case."""
    ulps: float
    """Its norm, in ulps: that of a small case may be right by luck."""
    share: float
    """Its share of results off the nearest values."""
    exact: bool
    """Whether zeros and ones make it exact, as they do sums, nearly everywhere: a quotient is exact
    here and there by luck, which nobody else needs to have."""

    @staticmethod
    def of(norms: Sequence[Norm]) -> _Pool:
        count = sum(norm.count for norm in norms)
        squares = sum(norm.ulps**2 * norm.count for norm in norms)
        exact = [norm.exact for norm in norms if norm.exact is not None]
        results = sum(map(len, exact))
        return _Pool(
            known=bool(norms),
            ulps=math.sqrt(squares / count) if count else 0.0,
            share=sum(norm.off for norm in norms) / max(1, sum(norm.nearest for norm in norms)),
            exact=results > 0
            and sum(int(np.count_nonzero(one)) for one in exact) >= EXACT_SHARE * results,
        )


class BaselineErrors:
    """What the baseline's own errors are, and what they allow a candidate."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._own: dict[str, dict[str, Norm]] = {}
        self._kinds: dict[str, tuple[DTypeName, ValueFamily]] = {}
        self._needed: dict[tuple[str, DTypeName], float] = {}
        """How many times as wide as stated the baseline's own results need the band."""
        self._equal: dict[str, EqualResults] = {}
        self._pools: dict[tuple[str, DTypeName, ValueFamily], _Pool] = {}
        """What is known of each kind of case, until more is learned."""
        self.bias = ColumnBias()
        """Errors of the baseline, by columns."""

    def learn(self, run: CaseRun, of: Case | None = None, *, measured: bool = True) -> None:
        """Take a run of the baseline as the measure of its case.

        With `of`, add it to the measure of that one, which is learned already, has few results and
        differs in its seed only. Where it is not `measured`, nothing is kept but that the baseline
        is right there; nor of a case whose arguments have families of their own: what rounding does
        to numbers of all magnitudes depends on the order of operations.
        """
        self.take(self.measured_of(run, of, measured=measured), of)

    def measured_of(
        self, run: CaseRun, of: Case | None, *, measured: bool, worst: float | None = None
    ) -> MeasuredRun:
        """What `learn` would learn; nothing is learned yet, so several threads may ask for it.
        `worst`: what a comparison found; without it `same` does not know these results."""
        case, task = run.oracle_case.case, self._task
        found = {arg.name: piece(task, arg, run) for arg in measured_args(task, run)}
        band = {name: needed(task, one) for name, one in found.items() if has_band(task, one)}
        precision, equal = PrecisionSeen(), None
        for one in found.values():
            precision.add(task, one)
        within = all(width < MOST_NEEDED for width in band.values())
        if worst is not None and of is None and within and _is_whole(task, run):
            counts = {name: len(one.got) for name, one in found.items()}
            equal = EqualResults(run.digest(task.args), worst, precision, counts)
        if case.families or case.planted or not measured:
            return MeasuredRun(case, found, band, precision, None, equal)
        if of is not None:
            return MeasuredRun(case, found, band, precision, {}, None)
        flushed, binary = task.flushed(case), case.values == "binary"
        norms = dict[str, Norm]()
        for name, (arg, _, got, expected, *_) in found.items():
            dtype, is_coded = arg.dtype_of(case), coded(arg)
            norm = Norm.of(got, expected, dtype, binary, coded=is_coded, flushed=flushed)
            few = (got.copy(), expected.copy()) if len(got) < FEW else None
            norms[name] = replace(norm, few=few)
        return MeasuredRun(case, found, band, precision, norms, equal)

    def take(self, run: MeasuredRun, of: Case | None) -> None:
        """Learn what was measured; `of` as of `learn`."""
        case = run.case
        self._pools.clear()
        for name, width in run.band.items():
            kind = name, run.pieces[name].arg.dtype_of(case)
            self._needed[kind] = max(self._needed.get(kind, 0.0), width)
        self.bias.merge(run.precision.bias)
        if run.equal:
            self._equal[case.key] = run.equal
        if run.norms is None:
            self._own[case.key] = {}
            return
        self._kinds[(of or case).key] = (case.dtype, case.values)
        if of is None:
            self._own.setdefault(case.key, {}).update(run.norms)
            return
        known, flushed = self._own[of.key], self._task.flushed(case)
        for name, (arg, _, got, expected, *_) in run.pieces.items():
            dtype = arg.dtype_of(case)
            known[name] = known[name].and_(got, expected, dtype, coded(arg), flushed)

    def knows(self, case: Case) -> bool:
        return case.key in self._own

    def forget(self, case: Case) -> None:
        self._pools.clear()
        self._own.pop(case.key, None)
        self._equal.pop(case.key, None)
        self.bias.forget(case)

    def judge(
        self, run: CaseRun, look: Callable[[MeasuredPiece], None] = lambda _: None
    ) -> ErrorNorm | Wrong | None:
        """The error norm nearest to its limit; Wrong beyond it; None without a baseline's run.
        `look` is called with each argument's results."""
        verdicts, case = [], run.oracle_case.case
        for arg in measured_args(self._task, run) if self.knows(case) else ():
            one = piece(self._task, arg, run)
            look(one)
            verdict = self.judge_piece(one) if self._own[case.key] else self._beside(one)
            if isinstance(verdict, Wrong):
                return verdict
            if verdict:
                verdicts.append(verdict)
        return _nearest(verdicts)

    def same(self, run: CaseRun) -> EqualResults | None:
        """What a look at the results would find, where they equal the baseline's on the same inputs
        byte for byte; None: look at them. What a call changed beside its results is no part."""
        case = run.oracle_case.case
        found = self._equal.get(case.key)
        if found is None or run.copies > 1 or not _is_whole(self._task, run):
            return None
        if run.digest(self._task.args) != found.digest:
            return None
        errors = []
        for arg in self._task.args:
            if norm := self._norm(arg, case):
                limits = self._limits(arg, case, norm, found.counts[arg.name])
                if norm.few is not None or not limits.allow(norm):
                    return None
                errors.append(limits.error(arg, case, norm))
        return replace(found, error=_nearest(errors))

    def judge_pieces(self, pieces: Sequence[MeasuredPiece]) -> Wrong | None:
        """What is wrong with them. A case that no run of the baseline was learned of is held
        against those of its kind."""
        for one in pieces:
            if self._pool(one.arg, one.case).known:
                verdict = self.judge_piece(one)
                if isinstance(verdict, Wrong):
                    return verdict.model_copy(update={"note": f"{verdict.note}; while timed"})
        return None

    def judge_piece(self, one: MeasuredPiece) -> ErrorNorm | Wrong:
        """Results by their place, then as a whole, on a case of a kind that it knows."""
        return self._beside(one) or self.judge_values(
            one.arg,
            one.case,
            one.got,
            one.expected,
            one.ran,
            by_share=not is_stated(one.oracle_case, one.arg),
        )

    def _beside(self, one: MeasuredPiece) -> Wrong | None:
        """What lies beside the nearest values and not near a midpoint. Where the baseline itself
        needs a wider band, so may a candidate."""
        if not has_band(self._task, one):
            return None
        own = self._needed.get((one.arg.name, one.arg.dtype_of(one.case)), 0.0)
        return outside_band(self._task, one, max(1.0, HEADROOM * own))

    def judge_values(
        self,
        arg: Arg,
        case: Case,
        got: Array,
        expected: Array,
        ran: Array,
        *,
        by_share: bool = True,
    ) -> ErrorNorm | Wrong:
        """Values at the flat positions `ran`, float64, on a case of a kind that it knows.
        `by_share`: only so many may be beside the nearest, wherever they are."""
        own, dtype = self._norm(arg, case), arg.dtype_of(case)
        exact = own.exact if own and self._pool(arg, case).exact else None
        if exact is not None and len(exact) == len(got) == ran[-1] + 1:
            inexact = np.flatnonzero(exact & (got != expected))
            if len(inexact):
                note = (
                    "for inputs of zeros and ones, the result must be exact, as the baseline's is"
                )
                return _wrong(arg, case, got, expected, ran, inexact, note)
        floor = own.floor if own else 0.0
        flushed = self._task.flushed(case)
        norm = Norm.of(got, expected, dtype, floor=floor, coded=coded(arg), flushed=flushed)
        limits = self._limits(arg, case, norm, len(got))
        if by_share and not limits.allow_share(norm):
            off = off_nearest(got, expected, dtype)
            note = (
                f"{norm.share:.1%} of the results are not the nearest {dtype} (baseline:"
                f" {limits.own_share:.1%}, limit: {limits.share:.1%}): compute in float32 and"
                " round once"
            )
            return _wrong(arg, case, got, expected, ran, np.flatnonzero(off), note)
        if norm.ulps <= limits.ulps:
            return limits.error(arg, case, norm)
        with np.errstate(invalid="ignore"):
            error = np.abs(got - expected)
        beyond = np.flatnonzero(error > 0.5 * ulp(expected, dtype))
        beyond = beyond[np.argsort(-error[beyond], kind="stable")]
        note = (
            f"rms error {norm.ulps:.3g} ulp (baseline: {limits.own_ulps:.3g}, limit:"
            f" {limits.ulps:.3g})"
        )
        return _wrong(arg, case, got, expected, ran, beyond, note)

    def _norm(self, arg: Arg, case: Case) -> Norm | None:
        """Returns the baseline's norm, where this very case was learned."""
        norms = self._own.get(case.key)
        return norms.get(arg.name) if norms else None

    def _limits(self, arg: Arg, case: Case, norm: Norm, count: int) -> _Limits:
        own_ulps, ulps = self._limit(arg, case, norm, count)
        own_share, share = self._share_limit(arg, case, norm)
        return _Limits(own_ulps, ulps, own_share, share)

    def _limit(self, arg: Arg, case: Case, norm: Norm, count: int) -> tuple[float, float]:
        """The baseline's norm, by the case or by all of its kind, and the candidate's limit for
        `count` elements of it.

        A correctly rounded result is always within it, however exact the baseline happens to be.
        """
        known, shape = self._norm(arg, case), arg.shape_of(case)
        own = max(known.ulps if known else 0.0, self._pool(arg, case).ulps)
        rows = max(1, math.prod(shape[:-1]) * count // max(1, math.prod(shape)))
        dtype = arg.dtype_of(case)
        bits = FRACTION_BITS.get(dtype, CODE_BITS)
        common = ROW_ULPS * 2.0 ** (bits - FRACTION_BITS["float32"])
        # An intermediate that was rounded once more is off by the same in all of its row.
        luck = 1 + LUCK / math.sqrt(min(norm.resting, rows))
        limit = luck * max(self._task.oracle_ratio * own, norm.half_ulps)
        equal = EQUAL_TERMS_ULPS * (dtype == "float32" and case.values in EQUAL_TERMS)
        return own, max(limit + common / math.sqrt(rows), equal)

    def _share_limit(self, arg: Arg, case: Case, norm: Norm) -> tuple[float, float]:
        """The baseline's share off the nearest values, and what a candidate's may be."""
        known = self._norm(arg, case)
        own = max(known.share if known else 0.0, self._pool(arg, case).share)
        most = min(1.0, self._task.oracle_ratio * max(FREE_SHARE, own))
        return own, most + SHARE_SIGMAS * math.sqrt(most * (1 - most) / max(1, norm.values))

    def _pool(self, arg: Arg, case: Case) -> _Pool:
        kind = arg.name, case.dtype, case.values
        if kind not in self._pools:
            self._pools[kind] = _Pool.of(
                [
                    norms[arg.name]
                    for known, norms in self._own.items()
                    if arg.name in norms and self._kinds[known] == (case.dtype, case.values)
                ]
            )
        return self._pools[kind]


def _is_whole(task: Task, run: CaseRun) -> bool:
    """Whether all blocks ran, and each result is judged by its own bytes."""
    written = [arg for arg in task.args if arg.written]
    whole = all(run.coverage(arg) is None for arg in written)
    return whole and not run.oracle_case.judged_together(task)


def _nearest(errors: Sequence[ErrorNorm]) -> ErrorNorm | None:
    """The one nearest to its limit."""
    return max(errors, key=lambda e: e.candidate_ulps / e.limit_ulps, default=None)


def _wrong(
    arg: Arg, case: Case, got: Array, expected: Array, ran: Array, bad: Array, note: str
) -> Wrong:
    return imprecise(arg, case, got[bad], expected[bad], ran[bad], total=len(got), note=note)


# What a check saw of a candidate's precision over all its cases: the share of results inside the
# band, and where its errors lean.


@dataclass
class PrecisionSeen:
    """Precision of one candidate so far; grows case by case."""

    bias: ColumnBias = field(default_factory=ColumnBias)
    _inside: Counter[str] = field(default_factory=Counter)
    _of: Counter[str] = field(default_factory=Counter)

    def add(self, task: Task, piece: MeasuredPiece) -> None:
        """Count the results of an argument on a case."""
        self.bias.add(piece)
        if is_narrow(piece) and has_band(task, piece):
            inside, count = inside_share(task, piece)
            self._inside[piece.arg.name] += inside
            self._of[piece.arg.name] += count

    def merge(self, later: PrecisionSeen) -> None:
        """Count what was counted elsewhere, of later results."""
        self.bias.merge(later.bias)
        self._inside.update(later._inside)
        self._of.update(later._of)

    @property
    def shares(self) -> dict[str, float]:
        """Share of results near a midpoint, where either neighbour is right, for each argument of
        16 bits or less: of a sample of the results of each case."""
        return {name: self._inside[name] / max(1, count) for name, count in self._of.items()}

    def leans(self, baseline: ColumnBias) -> Wrong | None:
        """The columns whose errors lean another way than the baseline's."""
        return self.bias.beside(baseline)
