"""Which kernels of a candidate its calls launch, and calls that launch the others.

What no call of a check launches is judged by nothing. So legal calls are drawn near the numbers
that select kernels: of those only the plans are recorded, which takes a millisecond each and
executes nothing, and one call of each further kernel is taken into the check. Branches inside
device code are not seen: a kernel counts as launched whatever its threads do. A kernel whose device
code is the baseline's may be launched by none: callers of the file's other functions use it.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.build.same_code import same_code
from astra_chat.tools.check.calls import CheckProgress
from astra_chat.tools.check.drawn_dims import (
    Dims,
    estimated_us,
    least,
    legal_near,
    most_units,
    within_bytes,
)
from astra_chat.tools.check.drawn_together import most_varied
from astra_chat.tools.check.hidden_cases import drawn_for_kernels
from astra_chat.tools.mangled import kernel_name
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.background import Ahead
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.domain import Combination
from astra_chat.tools.task.folder import Task
from astra_chat.tools.template_arguments import template_arguments
from astra_chat.tools.types import Case, Correct, Crashed, Finding, Refused, Wrong
from astra_vgpu.ground.cubin import read_cubin

CALLS = 480
"""Legal calls that are drawn for the kernels that no call of a check launches."""
DRAWN = 8
"""Extents of a dim that are drawn beside a known call."""
NEAREST = 3
"""Known instantiations beside whose calls those of a missing one are looked for."""
MOST_CALLS, MOST_CONFIRMING = 1_500, 12_000
"""Calls that are looked at for missing kernels, in a check and to confirm a winner."""
MOST_BYTES, MOST_US = 2**28, 500_000.0
"""Most bytes of a drawn call, and most time on the virtual GPU of one that is taken into a check; a
confirmation takes longer ones, too."""
SHORT_US, HALVINGS = 10_000.0, 20
"""A drawn call that takes longer is tried with fewer tokens, down to so many times half as many."""
SERVED_ONE_IN = 4
"""Drawn calls of which one, on average, begins with the extents of one of the task's own calls."""
FACTORS = (1, 1, 2, 4, 8, 16, 32, 64)
"""Factors of a number of a kernel's template: elements of a vector, or threads."""
MOST_FINDINGS = 20
_NUMBER = re.compile(r"(?<![\w.])(0x[0-9a-fA-F]{1,8}|\d{1,7})(?![\w.]*\.)")
_SHIFT = re.compile(r"\b1[uUlL]*\s*<<\s*(\d{1,2})\b")


Extents = dict[str, list[list[int]]]
"""Groups of extents of each dim that may select a kernel."""
Launching = tuple[Case, frozenset[str]]
"""A call, and the mangled names of the kernels that it launches."""
Further = Callable[[Runner, Build, Sequence[Case], CheckProgress], Correct | Wrong | Failure]
"""Checks further cases of the build."""


@dataclass
class CheckedKernels:
    """The kernels of one build in a check."""

    runner: Runner
    built: Build
    baseline: Build
    confirming: bool
    calls: int = 0
    """Calls whose plans were looked at."""
    ran: list[Launching] = field(default_factory=list)
    """Calls that were executed and compared."""
    sought: tuple[Case, ...] = ()
    """Calls that were sought for kernels that none of those launches."""
    known: dict[str, Case] = field(default_factory=dict)
    """A call that launches each kernel met so far: the shortest of those among which it was met."""

    def seek(self, compared: Sequence[Case]) -> None:
        """Seek calls of the kernels that none of these, which are executed and compared, launches.
        Raises Cancelled."""
        self._ran(compared)
        if self.missing:
            self.sought = self._sought()

    def would_have_run(self) -> list[Launching]:
        """Returns what will have been executed and compared where all that was sought is, too."""
        return [*self.ran, *self._launching(self.sought)]

    def fault(self, seen: CheckProgress, further: Further) -> Wrong | Failure | None:
        """What is wrong on the calls that were sought; to confirm a winner, that kernels are
        launched by none: not those whose device code is the baseline's."""
        if self.missing:
            seen.sought = self.sought
            done = len(seen.calls)
            outcome = further(self.runner, self.built, seen.sought, seen)
            if not isinstance(outcome, Correct):
                return outcome
            self._ran([call.oracle_case.case for call in seen.calls[done:]])
        missing = self.missing
        same = same_code(self.built, self.baseline) if missing else frozenset()
        seen.left_as_is = tuple(_words(name) for name in missing if name in same)
        names = [name for name in missing if name not in same]
        seen.never_launched = tuple(map(_words, names))
        return self._refused(names) if self.confirming else None

    @property
    def missing(self) -> list[str]:
        """Mangled names of the kernels that no executed and compared call launches, sorted."""
        launched = {name for _, names in self.ran for name in names}
        return sorted(set(read_cubin(self.built.cubin.read_bytes()).kernels) - launched)

    def _ran(self, cases: Sequence[Case]) -> None:
        """These calls were executed and compared. Their plans are known."""
        self.ran += self._look_at(cases)

    def _sought(self) -> tuple[Case, ...]:
        """Legal calls that launch what is missing, one of each kernel that was found; and the first
        on which the launcher crashes."""
        task, rng = self.runner.task, self.runner.seed.of("calls of kernels").random()
        missing, crashes = self.missing, list[Case]()
        of_templates = {number for name in missing for number in _template_numbers(name)}
        of_source = _source_numbers(self._source)
        extents = {name: _extents(task, name, of_templates, of_source) for name in task.dims}
        self._look_at(list(_near(task, extents, rng)), crashes)
        most = self.calls + (MOST_CONFIRMING if self.confirming else MOST_CALLS)
        tried = set[str]()

        def draw(name: str) -> list[int]:
            return [rng.choice(rng.choice(extents[name])) for _ in range(DRAWN)]

        while cases := list(
            islice(self._beside_known(missing, tried, draw), max(0, most - self.calls))
        ):
            self._look_at(cases, crashes)
        new = self._short([name for name in missing if name in self.known])
        new = [case for case in new if self.confirming or _us(task, case) <= MOST_US]
        return tuple({case.key: case for case in [*new, *crashes[:1]]}.values())

    def _short(self, names: Sequence[str]) -> list[Case]:
        """The call of each of these kernels with as few of what varies most as launch it still."""
        fewer = [(name, case) for name in names for case in self._fewer(self.known[name])]
        self.calls += len(fewer)
        cases = [case for _, case in fewer]
        plans = self.runner.record(self.built, cases) if cases else ()
        found = dict[str, Case]()
        for (name, case), plan in zip(fewer, plans, strict=True):
            if isinstance(plan, LaunchPlan) and name in plan.kernel_names:
                found.setdefault(name, case)
        return [found.get(name, self.known[name]) for name in names]

    def _fewer(self, case: Case) -> list[Case]:
        """Legal calls like a long one with less of what varies most, the shortest first."""
        task, tokens = self.runner.task, most_varied(self.runner.task)
        if _us(task, case) <= SHORT_US:
            return []
        kind, extent = Combination.of(case), case.dims[tokens]
        fewer = [{**case.dims, tokens: extent >> bits} for bits in range(HALVINGS, 0, -1)]
        found = [legal_near(task, kind, dims, list(dims)) for dims in fewer if dims[tokens]]
        return [one for dims in found for one in _legal(task, kind, case, dims, {})]

    def _beside_known(
        self, missing: Sequence[str], tried: set[str], draw: Callable[[str], list[int]]
    ) -> Iterator[Case]:
        """Calls beside those of the known kernels that are most like the ones not met so far, but
        for what lies beside a call that was `tried`; none once all are met. `draw` gives some
        extents of a dim."""
        numbers = dict[str, set[int]]()
        for name in missing:
            if name not in self.known:
                for other in _most_alike(name, self.known)[:NEAREST]:
                    numbers.setdefault(other, set()).update(_differing_numbers(name, other))
        for other, own in numbers.items():
            if (seed := self.known[other]).key not in tried:
                tried.add(seed.key)
                yield from _beside(self.runner.task, seed, own, draw)

    def _look_at(self, cases: Sequence[Case], crashes: list[Case] | None = None) -> list[Launching]:
        """Record these calls' plans. Returns what they launch, which is known then. Crashes of the
        launcher are added."""
        self.calls += len(cases)
        met = self._launching(cases, crashes)
        for case, names in met:
            for name in names:
                self.known.setdefault(name, case)
        return met

    def _launching(
        self, cases: Sequence[Case], crashes: list[Case] | None = None
    ) -> list[Launching]:
        """Returns what these calls launch, the shortest first."""
        task, met = self.runner.task, list[Launching]()
        self.runner.stop.check()
        plans = zip(cases, self.runner.record(self.built, cases) if cases else (), strict=True)
        for case, plan in sorted(plans, key=lambda pair: _us(task, pair[0])):
            if isinstance(plan, LaunchPlan):
                met.append((case, plan.kernel_names))
            elif isinstance(plan, Crashed) and plan.case == case and crashes is not None:
                crashes.append(case)
        return met

    def _refused(self, names: Sequence[str]) -> Refused | None:
        theirs = read_cubin(self.baseline.cubin.read_bytes()).kernels
        new = "remove it, launch it, or instantiate it only for calls that the contract allows"
        changed = (
            "the baseline's kernel of this name is different: leave that kernel unchanged, or"
            " remove it"
        )
        findings = [
            Finding(
                line=self._line(kernel_name(name)),
                what=(
                    f"kernel {_words(name)} is not launched by any of {self.calls:,} valid calls,"
                    f" so none of its code was judged: {changed if name in theirs else new}"
                ),
            )
            for name in names[:MOST_FINDINGS]
        ]
        if names[MOST_FINDINGS:]:
            findings.append(Finding(line=1, what=f"{len(names) - MOST_FINDINGS} further kernels"))
        return Refused(gate="plan", findings=tuple(findings)) if findings else None

    @property
    def _source(self) -> str:
        return (self.built.folder / "kernel.cu").read_text(errors="replace")

    def _line(self, name: str) -> int:
        """Where the kernel is named first before a parenthesis; 1 where it is not."""
        pattern = re.compile(rf"\b{re.escape(name)}\s*\(")
        lines = enumerate(self._source.splitlines(), start=1)
        return next((number for number, line in lines if pattern.search(line)), 1)


def kernels_not_launched(runner: Runner, built: Build, cases: Sequence[Case]) -> tuple[str, ...]:
    """Kernels of a build that none of these calls launches."""
    plans = [plan for plan in runner.record(built, cases) if isinstance(plan, LaunchPlan)]
    launched = {name for plan in plans for name in plan.kernel_names}
    names = sorted(set(read_cubin(built.cubin.read_bytes()).kernels) - launched)
    return tuple(map(_words, names))


def _words(mangled: str) -> str:
    """A kernel as a reader knows it: "silu<__half, 8>"."""
    return kernel_name(mangled) + template_arguments(mangled)


def _us(task: Task, case: Case) -> float:
    """About what a call takes the virtual GPU, in us."""
    return estimated_us(task, Combination.of(case), case.dims)


def _near(task: Task, extents: Extents, rng: random.Random) -> Iterator[Case]:
    """Legal calls of MOST_BYTES at most, most with extents that may select a kernel."""
    served = [case.dims for case in (*task.check, *(c for c, _ in (*task.bench, *task.demo)))]
    for number in range(CALLS):
        kind = task.combinations[number % len(task.combinations)]
        dims = _dims(task, kind, rng, extents, served)
        case = drawn_for_kernels(task, kind, dims, rng)
        if task.allows(case) and task.buffer_bytes(case) <= MOST_BYTES:
            yield case


def _arguments(mangled: str) -> list[str]:
    return template_arguments(mangled).strip("<>").split(", ")


def _template_numbers(mangled: str) -> set[int]:
    return {int(number) for number in re.findall(r"\d{1,7}", template_arguments(mangled))}


def _differing(name: str, other: str) -> list[str]:
    """Arguments of one instantiation that another of the same template has not."""
    pairs = zip(_arguments(name), _arguments(other), strict=False)
    return [own for own, theirs in pairs if own != theirs]


def _differing_numbers(name: str, other: str) -> set[int]:
    return {int(text) for text in _differing(name, other) if text.isdecimal()}


def _most_alike(name: str, known: Iterable[str]) -> list[str]:
    """The known instantiations of the same template, those first that differ in fewest
    arguments."""
    alike = [other for other in known if kernel_name(other) == kernel_name(name)]
    return sorted(alike, key=lambda other: (len(_differing(name, other)), other))


def _beside(
    task: Task, case: Case, numbers: Iterable[int], draw: Callable[[str], list[int]]
) -> Iterator[Case]:
    """Legal calls that differ from this one in dtypes and one scalar or extent: the instantiations
    of one template are often chosen beside each other, and by the `numbers` of its arguments or
    by those of the source, of which `draw` gives some. Each as it lies, and aligned."""
    plain = case.model_copy(update={"pads": {}, "offsets": {}, "offset": 0})
    for one in {each.key: each for each in (plain, case)}.values():
        for kind in task.combinations:
            changed = [{s.name: value} for s in task.scalars if s.varies for value in s.named]
            for scalars in [{}, *changed]:
                yield from _legal(task, kind, one, dict(case.dims), scalars)
            for name in task.dims:
                others = _other_extents(task, name, case.dims[name], numbers)
                for extent in dict.fromkeys([*others, *draw(name)]):
                    kept = legal_near(task, kind, {**case.dims, name: extent}, [name])
                    yield from _legal(task, kind, one, kept, {})


def _other_extents(task: Task, name: str, own: int, numbers: Iterable[int]) -> list[int]:
    """Extents of a dim beside one of a call: its ends, some powers of two apart, and multiples of
    the numbers."""
    dim = task.dims[name]
    if dim.values:
        return list(dim.values)
    apart = [own // 16, own // 4, own // 2, 2 * own, 4 * own, 16 * own, dim.min, dim.max]
    multiples = [number << bits for number in numbers for bits in range(13)]
    return sorted({extent for extent in [*apart, *multiples] if dim.min <= extent <= dim.max})


def _legal(
    task: Task, kind: Combination, case: Case, dims: Dims | None, scalars: dict[str, float]
) -> Iterator[Case]:
    """The case with these changes, if it is legal and not too large."""
    if dims is not None:
        update = {"dtype": kind.dtype, "types": kind.types, "dims": dims}
        changed = case.model_copy(update={**update, "scalars": {**case.scalars, **scalars}})
        if task.allows(changed) and task.buffer_bytes(changed) <= MOST_BYTES:
            yield changed


def _dims(
    task: Task,
    kind: Combination,
    rng: random.Random,
    extents: Extents,
    served: Sequence[Dims],
) -> Dims:
    """Half of the other dims at an extent that may select a kernel, or as in a served call; and of
    the dim that varies most any number that fits, as often such an extent."""
    low, name = least(task, kind), most_varied(task)
    dims = dict(rng.choice(served)) if rng.randrange(SERVED_ONE_IN) == 0 else dict(low)
    for other in task.dims:
        if other != name and rng.randrange(2):
            dims[other] = rng.choice(rng.choice(extents[other]))
    dims[name] = low[name]
    found = legal_near(task, kind, dims)
    if found is None or task.size_bytes(kind.case(found)) > MOST_BYTES:
        return low
    high = most_units(task, kind, found, name, within_bytes(task, kind, MOST_BYTES // 2))
    step = task.dims[name].step(kind.dtype)
    drawn = step * round(math.exp(rng.uniform(0.0, math.log(max(1, high)))))
    chosen = rng.choice((drawn, min(high * step, rng.choice(rng.choice(extents[name])))))
    more = legal_near(task, kind, {**found, name: max(low[name], chosen)}, [name])
    return more if more and task.size_bytes(kind.case(more)) <= MOST_BYTES else found


def _source_numbers(source: str) -> set[int]:
    """Numbers that the source names, as they are or as 1 << n."""
    numbers = {int(text, 0 if text.startswith("0x") else 10) for text in _NUMBER.findall(source)}
    return numbers | {1 << int(bits) for bits in _SHIFT.findall(source) if int(bits) < 31}


def _extents(task: Task, name: str, of_templates: set[int], of_source: set[int]) -> list[list[int]]:
    """Returns groups of extents of one dim: numbers of the templates of missing kernels and their
    multiples, numbers of the source, extents of the task's own calls, powers of two; each with its
    neighbors."""
    dim = task.dims[name]
    own = {case.dims[name] for case in task.check}
    own |= {case.dims[name] for case, _ in (*task.bench, *task.demo)}
    powers = {2**k for k in range(dim.max.bit_length())}
    parts = [{n * by for n in of_templates for by in FACTORS}, of_source, own, powers]
    steps = {dim.step(dtype) for dtype in task.dtypes}
    beside = [
        sorted({e + by for e in part for step in steps for by in (-step, 0, step)})
        for part in parts
    ]
    legal = [[e for e in part if dim.min <= e <= dim.max] for part in beside]
    return [part for part in legal if part] or [[dim.min, dim.max]]


# What a check does beyond the calls that the oracle judges: calls sought for kernels that none of
# those launches, and far calls. Neither depends on what the calls leave behind, so where a machine
# has cores for it both are begun beside them; what was assumed then is looked at again, and done
# again where it was otherwise. So a verdict is the same on any machine, and comes in the same
# order.

FarFault = Wrong | Failure | None
Kernels = tuple[tuple[Case, ...], CheckedKernels]
"""Calls that are executed and compared, and what is known of their kernels, with calls sought for
the others."""


class BeyondOracle:
    """One check's, of one candidate."""

    def __init__(
        self,
        kernels: Callable[[Stop], CheckedKernels],
        far: Callable[[Stop, Sequence[Launching]], FarFault],
        stop: Stop,
    ) -> None:
        """`kernels` makes an empty record of the candidate's kernels; `far` makes far calls beside
        these ones. Both raise Cancelled once their stop, or this one, is set."""
        self._new, self._far, self._stop = kernels, far, Stop(beside=stop)
        self._kernels: Ahead[Kernels] | None = None
        self._fault: Ahead[tuple[list[Launching], FarFault]] | None = None

    def begin(self, cases: Callable[[], Sequence[Case]]) -> None:
        """Begin, where there are cores for it. `cases`: what will be executed and compared."""
        self._kernels = kernels = Ahead(lambda stop: self._sought(cases(), stop), self._stop)
        self._fault = Ahead(lambda stop: self._far_ahead(kernels, stop), self._stop)

    def kernels(self, cases: Sequence[Case]) -> CheckedKernels:
        """What is known once these were executed and compared. Raises Cancelled."""
        if self._kernels is not None and self._kernels.begun:
            assumed, kernels = self._kernels.result()
            if assumed == tuple(cases):
                return kernels
        return self._sought(cases, self._stop)[1]

    def far_fault(self, ran: Sequence[Launching]) -> FarFault:
        """What is wrong with far calls beside these. Raises Cancelled."""
        if self._fault is not None and self._fault.begun:
            assumed, fault = self._fault.result()
            if assumed == list(ran):
                return fault
        return self._far(self._stop, ran)

    def end(self) -> None:
        """Stop what nobody waits for any more."""
        self._stop.set()
        for ahead in (self._kernels, self._fault):
            if ahead is not None:
                ahead.end()

    def _sought(self, cases: Sequence[Case], stop: Stop) -> Kernels:
        kernels = self._new(stop)
        kernels.seek(cases)
        return tuple(cases), kernels

    def _far_ahead(self, kernels: Ahead[Kernels], stop: Stop) -> tuple[list[Launching], FarFault]:
        """Far calls beside those that will have run, where the sought ones can all be judged."""
        ran = kernels.result()[1].would_have_run()
        return ran, self._far(stop, ran)
