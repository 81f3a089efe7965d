"""Relations of a function's sizes, learnt from calls of it that fail.

A check that fails is met by changing one size, or two, until the call says something else: which
numbers work and which do not says what the check demands, however the source writes it. Nothing is
built for it: sizes and numbers are parameters of the launcher.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from astra_chat.tools.new.draft import Draft, DraftScalar
from astra_chat.tools.new.extents import expressions
from astra_chat.tools.new.guesses import TRIED, integers_of, scalar_value, settled_extents
from astra_chat.tools.task.expressions import evaluate, holds
from astra_chat.tools.types import Case

SMALL = range(9)
PRIMES = (2, 3, 5, 7, 11, 13)
MOST_CASES = 4
"""Failing cases of a message that are looked at."""
MOST_CALLS = 1500
MOST_TEXTS = 40
MOST_EXTENT = 65536
STEPS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024)
_NUMBER = re.compile(r"\d+")
_OTHERS = re.compile(r"not implemented|scalar type|dtype|launch \d+ of")
"""Messages of which sizes are not the cause."""
MOST_VALUES = 8


@dataclass(frozen=True)
class Failure:
    """What a call fails with."""

    why: str = ""
    """"" where it works."""
    checks: int = 0
    """How many checks it got to."""
    crashed: bool = False
    """Its process ended: whether the check was met is not known."""

    @property
    def kind(self) -> str:
        """The message without the numbers in it."""
        return _NUMBER.sub("", self.why)

    def gets_beyond(self, other: Failure) -> bool:
        """Whether the check that ended the other call did not end this one."""
        return not self.why or (self.kind != other.kind and self.checks >= other.checks)


Calls = Callable[[Sequence[Case]], list[Failure]]


@dataclass(frozen=True)
class _Sample:
    """Numbers of a call, and whether the check that is looked at was met."""

    names: Mapping[str, int]
    met: bool
    known: bool = True


def with_learned(
    draft: Draft, cases: Sequence[Case], failed: Sequence[Failure], call: Calls
) -> Draft:
    """The draft with what one of these failures says, the first of which anything can be learnt.

    It is as it was where none says anything.
    """
    usual = integers_of(draft)
    cases = [case.model_copy(update={"scalars": {**usual, **case.scalars}}) for case in cases]
    for first in {one.kind: one for one in reversed(failed) if one.why}.values():
        if _OTHERS.search(first.kind):
            continue
        failing = [c for c, one in zip(cases, failed, strict=True) if one.kind == first.kind]
        met = [
            _Sample(_numbers_of(c), True) for c, o in zip(cases, failed, strict=True) if not o.why
        ]
        varied = [other for case in failing[:1] for other in _varied(case)]
        again = zip(varied, call(varied), strict=True)
        failing = [*failing[:MOST_CASES], *(c for c, one in again if one.kind == first.kind)]
        found = _Check(draft, failing, met, first, call).learned()
        if found != draft:
            return found
    return draft


def _varied(case: Case) -> Iterator[Case]:
    """Other calls that likely fail alike: each number changed, and all of them."""
    names = _numbers_of(case)
    every = {
        name: value + PRIMES[at % len(PRIMES)] for at, (name, value) in enumerate(names.items())
    }
    yield _changed(case, every)
    scalars = {name: every[name] for name in case.scalars}
    yield _changed(case, scalars)
    yield from (_changed(case, {name: value}) for name, value in every.items())


@dataclass(frozen=True)
class _Check:
    """A check that fails: the calls in which it does, and some that work."""

    draft: Draft
    failing: Sequence[Case]
    working: Sequence[_Sample]
    first: Failure
    call: Calls

    def learned(self) -> Draft:
        """The draft with what meets the check."""
        dims = [name for name in self.draft.dims if len(self.draft.extents.get(name, (0, 0))) > 1]
        integers = [s for s in self.draft.scalars if s.type == "int64_t"]
        sampled = dict[str, Sequence[_Sample]]()
        for name in dims:
            samples = sampled[name] = self._of_dim(name)
            if any(sample.met for sample in samples):
                if (found := self._with_relation(name, samples)) != self.draft:
                    return found
        for scalar in integers:
            if (found := self._with_scalar(scalar)) != self.draft:
                return found
        flags = (self._with_flag(s) for s in self.draft.scalars if s.type == "bool")
        flagged = next((one for one in flags if one), None)
        return flagged or self._of_some(sampled) or self._of_pairs(dims)

    def _of_some(self, sampled: Mapping[str, Sequence[_Sample]]) -> Draft | None:
        """Where no relation tells all calls that meet the check: two dims that are equal in some of
        them, and in none of the others."""
        for name, samples in sampled.items():
            for other in sampled:
                text = f"{name} == {other}"
                equal = [one.met for one in samples if one.known and _holds(text, one.names)]
                if name != other and len(equal) >= len(self.failing) and all(equal):
                    return replace(self.draft, require=(*self.draft.require, text))
        return None

    def _numbers(self) -> list[int]:
        """Numbers that the messages name, then usual ones."""
        said = (int(text) for text in _NUMBER.findall(self.first.why) if len(text) < 7)
        return list(dict.fromkeys(n for n in (*said, *TRIED) if 0 < n <= MOST_EXTENT))

    def _of_dim(self, name: str) -> list[_Sample]:
        """The first call with all values of a dim that may meet the check; and where some do, the
        others with these, and with some that do not."""
        first = _numbers_of(self.failing[0])
        others = [other for other in first if other != name]
        texts = [*map(str, SMALL[1:]), *map(str, self._numbers()), *expressions(others)]
        value = {text: _value(text, first) for text in texts}
        tried = [v for v in dict.fromkeys(value.values()) if 0 < v <= MOST_EXTENT][:MOST_CALLS]
        samples = self._samples([{name: v} for v in tried], self.failing[:1])
        met = {sample.names[name] for sample in samples if sample.met}
        if not met:
            return samples
        right = [text for text in texts if value[text] in met][:MOST_TEXTS]
        chosen = [*right, *(t for t in texts if value[t] not in met)][: 2 * MOST_TEXTS]
        for case in self.failing[1:]:
            values = dict.fromkeys(_value(text, _numbers_of(case)) for text in chosen)
            changes = [{name: v} for v in values if 0 < v <= MOST_EXTENT]
            samples += self._samples(changes, [case])
        return samples

    def _samples(
        self, changes: Sequence[Mapping[str, int]], cases: Sequence[Case] | None = None
    ) -> list[_Sample]:
        """Failing calls with each of these changes."""
        failing = self.failing if cases is None else cases
        changed = [self._settled(case, change) for case in failing for change in changes]
        return [
            _Sample(_numbers_of(case), one.gets_beyond(self.first), not one.crashed)
            for case, one in zip(changed, self.call(changed), strict=True)
        ]

    def _settled(self, case: Case, change: Mapping[str, int]) -> Case:
        """The case with a change, and what is known to follow from it."""
        other = _changed(case, change)
        if not self.draft.require:
            return other
        dims = settled_extents(self.draft, other.dims, self.draft.require, change)
        return other.model_copy(update={"dims": dims})

    def _with_scalar(self, scalar: DraftScalar) -> Draft:
        """The scalar with a value that works in all of these calls, or the dim that it is."""
        values = [{scalar.name: value} for value in (*SMALL, *self._numbers())]
        samples = self._samples(values)
        right = [
            change[scalar.name]
            for at, change in enumerate(values)
            if all(sample.met for sample in samples[at :: len(values)])
        ]
        if right and all(str(value) != scalar.value for value in right):
            return _with_value(self.draft, scalar, sorted(set(right)))
        extents = {case.dims[dim] for case in self.failing for dim in self.draft.dims}
        told = self._samples([{scalar.name: value} for value in extents])
        for dim in self.draft.dims if "args" in self.draft.binding else ():
            equal = [one for one in told if one.names[scalar.name] == one.names[dim]]
            if len({one.names[dim] for one in equal}) > 1 and all(one.met for one in equal):
                return _with_size(self.draft, scalar, dim)
        return self.draft

    def _with_flag(self, flag: DraftScalar) -> Draft | None:
        """The bool with its other value, if that meets the check in all of these calls."""
        usual = scalar_value(flag)
        other = "false" if usual == "true" else "true"
        if not all(sample.met for sample in self._samples([{flag.name: int(other == "true")}])):
            return None
        why = " ".join(self.first.why.split())
        changed = replace(flag, value=other, doubt=f"calls with {usual} fail: {why}")
        scalars = tuple(changed if s.name == flag.name else s for s in self.draft.scalars)
        return replace(self.draft, scalars=scalars)

    def _with_relation(self, name: str, samples: Sequence[_Sample]) -> Draft:
        """The simplest relation of a dim that tells the calls that meet the check from others."""
        told = [
            *(one for one in samples if one.known),
            *(_Sample(_numbers_of(case), False) for case in self.failing),
            *self.working,
        ]
        values = sorted({one.names[name] for one in samples if one.met and one.known})
        few = len(values) <= MOST_VALUES and all(
            (one.names[name] in values) == one.met for one in told
        )
        if few and len(values) == 1:
            return self._with_extents({name: values})
        for text in _relations(name, list(self.failing[0].dims), list(self.failing[0].scalars)):
            if all(_holds(text, one.names) == one.met for one in told):
                if multiple := re.fullmatch(rf"{name} % (\d+) == 0", text):
                    steps = {**self.draft.multiples, name: int(multiple[1])}
                    return replace(self.draft, multiples=steps)
                return replace(self.draft, require=(*self.draft.require, text))
        return self._with_extents({name: values}) if few else self.draft

    def _with_extents(self, found: Mapping[str, Sequence[int]]) -> Draft:
        extents = {name: tuple(values) for name, values in found.items()}
        return replace(self.draft, extents={**self.draft.extents, **extents})

    def _of_pairs(self, dims: Sequence[str]) -> Draft:
        """Where two dims have to change at once: numbers that the message names."""
        said = dict.fromkeys(map(int, _NUMBER.findall(self.first.why)))
        numbers = [n for n in said if 0 < n <= MOST_EXTENT][:24]
        for one, other in itertools.combinations(dims, 2):
            pairs = itertools.permutations(numbers, 2)
            changes = [{one: a, other: b} for a, b in pairs]
            if met := [s.names for s in self._samples(changes, self.failing[:1]) if s.met]:
                return self._with_extents({name: [met[0][name]] for name in (one, other)})
        return self.draft


def _numbers_of(case: Case) -> dict[str, int]:
    return {name: int(value) for name, value in case.scalars.items()} | case.dims


def _changed(case: Case, change: Mapping[str, int]) -> Case:
    sizes = {name: value for name, value in change.items() if name in case.dims}
    numbers = {name: float(value) for name, value in change.items() if name not in case.dims}
    return case.model_copy(
        update={"dims": {**case.dims, **sizes}, "scalars": {**case.scalars, **numbers}}
    )


def _relations(name: str, dims: Sequence[str], integers: Sequence[str]) -> Iterator[str]:
    """Relations of a dim to others and to integer scalars, the likeliest first."""
    others = [other for other in (*dims, *integers) if other != name]
    yield from (f"{name} == {other}" for other in others)
    yield from (f"{name} % {step} == 0" for step in STEPS)
    for other in others:
        yield from (f"{name} % {other} == 0", f"{other} % {name} == 0")
        yield from (f"{name} {sign} {other}" for sign in ("<=", ">=", "<", ">"))
    yield from (f"{name} == {text}" for text in expressions(others))
    for other in others:
        yield from (f"{name} % ({other}*{step}) == 0" for step in STEPS)


def _value(text: str, names: Mapping[str, int]) -> int:
    try:
        return evaluate(text, names)
    except ZeroDivisionError:
        return 0


def _holds(text: str, names: Mapping[str, int]) -> bool:
    try:
        return holds(text, names)
    except ZeroDivisionError:
        return False


def _with_value(draft: Draft, scalar: DraftScalar, met: Sequence[int]) -> Draft:
    """The scalar with the first value that works; a mark names all that do."""
    named = ", ".join(map(str, met[:8]))
    changed = replace(scalar, value=str(met[0]), doubt=f"of the values tried, {named} work")
    return replace(
        draft, scalars=tuple(changed if s.name == scalar.name else s for s in draft.scalars)
    )


def _with_size(draft: Draft, scalar: DraftScalar, dim: str) -> Draft:
    """A dim is passed for the scalar."""
    passed = draft.binding.get("args")
    names = passed if isinstance(passed, list) else []
    given = [dim if one == scalar.name else one for one in names]
    scalars = tuple(s for s in draft.scalars if s.name != scalar.name)
    return replace(draft, scalars=scalars, binding={**draft.binding, "args": given})
