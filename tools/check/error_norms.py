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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from astra_chat.tools.check.bands import has_band, needed, outside_band
from astra_chat.tools.check.column_bias import ColumnBias
from astra_chat.tools.check.floats import FRACTION_BITS, Array, ulp
from astra_chat.tools.check.imprecise import imprecise
from astra_chat.tools.check.measured_values import MeasuredPiece, coded, measured_args, piece
from astra_chat.tools.check.norm import Norm as Norm
from astra_chat.tools.check.norm import off_nearest
from astra_chat.tools.evaluation import ErrorNorm
from astra_chat.tools.run.band_files import is_stated
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import (
    Case,
    DTypeName,
    ValueFamily,
    Wrong,
)

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
    bias: ColumnBias
    """Its errors by columns."""
    norms: Mapping[str, Norm] | None
    """None where nothing is kept but that the baseline is right there; empty on a further seed."""


class BaselineErrors:
    """What the baseline's own errors are, and what they allow a candidate."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._own: dict[str, dict[str, Norm]] = {}
        self._kinds: dict[str, tuple[DTypeName, ValueFamily]] = {}
        self._needed: dict[tuple[str, DTypeName], float] = {}
        """How many times as wide as stated the baseline's own results need the band."""
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

    def measured_of(self, run: CaseRun, of: Case | None, *, measured: bool) -> MeasuredRun:
        """What `learn` would learn; nothing is learned yet, so several threads may ask for it."""
        case, task = run.oracle_case.case, self._task
        found = {arg.name: piece(task, arg, run) for arg in measured_args(task, run)}
        band = {name: needed(task, one) for name, one in found.items() if has_band(task, one)}
        bias = ColumnBias()
        for one in found.values():
            bias.add(one)
        if case.families or case.planted or not measured:
            return MeasuredRun(case, found, band, bias, None)
        if of is not None:
            return MeasuredRun(case, found, band, bias, {})
        flushed, binary = task.flushed(case), case.values == "binary"
        norms = dict[str, Norm]()
        for name, (arg, _, got, expected, *_) in found.items():
            dtype, is_coded = arg.dtype_of(case), coded(arg)
            norm = Norm.of(got, expected, dtype, binary, coded=is_coded, flushed=flushed)
            few = (got.copy(), expected.copy()) if len(got) < FEW else None
            norms[name] = replace(norm, few=few)
        return MeasuredRun(case, found, band, bias, norms)

    def take(self, run: MeasuredRun, of: Case | None) -> None:
        """Learn what was measured; `of` as of `learn`."""
        case = run.case
        for name, width in run.band.items():
            kind = name, run.pieces[name].arg.dtype_of(case)
            self._needed[kind] = max(self._needed.get(kind, 0.0), width)
        self.bias.merge(run.bias)
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
        self._own.pop(case.key, None)
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
        return max(verdicts, key=lambda e: e.candidate_ulps / e.limit_ulps, default=None)

    def judge_pieces(self, pieces: Sequence[MeasuredPiece]) -> Wrong | None:
        """What is wrong with them. A case that no run of the baseline was learned of is held
        against those of its kind."""
        for one in pieces:
            if self._alike(one.arg, one.case):
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
        exact = own.exact if own and self._is_exact(arg, case) else None
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
        own_ulps, limit = self._limit(arg, case, norm, len(got))
        own_share, most = self._share_limit(arg, case, norm)
        if by_share and norm.share > most and norm.values >= MIN_VALUES:
            off = off_nearest(got, expected, dtype)
            note = (
                f"{norm.share:.1%} of the results are not the nearest {dtype}; of the"
                f" baseline's, {own_share:.1%} are not, and at most {most:.1%} are"
                " allowed: compute in float32 and round once"
            )
            return _wrong(arg, case, got, expected, ran, np.flatnonzero(off), note)
        if norm.ulps <= limit:
            return ErrorNorm(
                case=case,
                argument=arg.name,
                candidate_ulps=norm.ulps,
                baseline_ulps=own_ulps,
                limit_ulps=limit,
            )
        with np.errstate(invalid="ignore"):
            error = np.abs(got - expected)
        beyond = np.flatnonzero(error > 0.5 * ulp(expected, dtype))
        beyond = beyond[np.argsort(-error[beyond], kind="stable")]
        note = (
            f"rms error {norm.ulps:.3g} ulp; the baseline's own is {own_ulps:.3g}; at most"
            f" {limit:.3g} is allowed"
        )
        return _wrong(arg, case, got, expected, ran, beyond, note)

    def _norm(self, arg: Arg, case: Case) -> Norm | None:
        """Returns the baseline's norm, where this very case was learned."""
        norms = self._own.get(case.key)
        return norms.get(arg.name) if norms else None

    def _limit(self, arg: Arg, case: Case, norm: Norm, count: int) -> tuple[float, float]:
        """The baseline's norm, by the case or by all of its kind, and the candidate's limit for
        `count` elements of it.

        A correctly rounded result is always within it, however exact the baseline happens to be.
        """
        known, shape = self._norm(arg, case), arg.shape_of(case)
        own = max(known.ulps if known else 0.0, self._pooled(arg, case))
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
        alike = self._alike(arg, case)
        pooled = sum(n.off for n in alike) / max(1, sum(n.nearest for n in alike))
        known = self._norm(arg, case)
        own = max(known.share if known else 0.0, pooled)
        most = min(1.0, self._task.oracle_ratio * max(FREE_SHARE, own))
        return own, most + SHARE_SIGMAS * math.sqrt(most * (1 - most) / max(1, norm.values))

    def _alike(self, arg: Arg, case: Case) -> list[Norm]:
        return [
            norms[arg.name]
            for known, norms in self._own.items()
            if arg.name in norms and self._kinds[known] == (case.dtype, case.values)
        ]

    def _is_exact(self, arg: Arg, case: Case) -> bool:
        """Whether zeros and ones make the baseline exact, as they do sums, nearly everywhere: a
        quotient is exact here and there by luck, which nobody else needs to have."""
        known = [norm.exact for norm in self._alike(arg, case) if norm.exact is not None]
        count = sum(len(exact) for exact in known)
        return count > 0 and sum(int(exact.sum()) for exact in known) >= EXACT_SHARE * count

    def _pooled(self, arg: Arg, case: Case) -> float:
        """Returns the baseline's norm, in ulps, over all known cases of this dtype and family: a
        small one may be right by luck."""
        alike = self._alike(arg, case)
        count = sum(norm.count for norm in alike)
        return math.sqrt(sum(n.ulps**2 * n.count for n in alike) / count) if count else 0.0


def _wrong(
    arg: Arg, case: Case, got: Array, expected: Array, ran: Array, bad: Array, note: str
) -> Wrong:
    return imprecise(arg, case, got[bad], expected[bad], ran[bad], total=len(got), note=note)
