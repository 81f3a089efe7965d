"""Calls that reach beyond 2^31 elements, on the virtual GPU: an offset that overflows in 32 bits
lies outside all arguments or, beyond 2^32 elements and without a sign, near their begin.

No oracle makes so many results. Those of small arguments, and of the first and last rows of others,
are compared with the baseline's; where only some blocks ran, what both stored. Where all blocks
ran, a candidate must write at least half as much of each output as the baseline, and something of
each argument that this changes. Where only some did, each of these must write what is its own
(check/far_blocks.py).
So it is with calls at the contract's end that are too large for an oracle (check/drawn_dims.py).
Cases on which the baseline leaves its arguments are left out. Beside the calls that all candidates
share, each kernel of a candidate that none of them launches gets calls of its own. They run on the
virtual GPU for a real one, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from astra_chat.tools.build.nvcc import Build, build, require_build
from astra_chat.tools.check.compare import MIN_SHARE
from astra_chat.tools.check.drawn_dims import Dims, least, legal_near, too_large_ends
from astra_chat.tools.check.drawn_layouts import one_or_all
from astra_chat.tools.check.drawn_together import most_varied
from astra_chat.tools.check.far_blocks import SilentBlocks, silent_blocks
from astra_chat.tools.check.floats import SATURATION, as_float, ulp
from astra_chat.tools.check.hidden_cases import unique
from astra_chat.tools.check.kernels import Launching
from astra_chat.tools.check.lost_cases import Failed
from astra_chat.tools.entropy import Seed
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.run.failures import Failure, failure_of
from astra_chat.tools.run.protocol import (
    BadReport,
    CallRequest,
    CaseReport,
    StoredBlocks,
    VirtualRequest,
    parsed,
)
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import StepTimeout, Stop
from astra_chat.tools.task.buffer_layout import buffer_bytes
from astra_chat.tools.task.domain import Combination
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import ITEM_BYTES, Case, Unsafe, Wrong

CHILD = "astra_chat.tools.runners.virtual_far"
TIMEOUT_S = 60.0
FAR = 2**31
"""Elements: the first offset that 32 bits with a sign do not hold."""
WRAPPED = 2**32
"""Elements: the first offset that 32 bits without a sign do not hold."""
WIDE = 9 * 2**29
"""Elements to the last of three rows: the second lies beyond FAR, the last beyond what 32 bits
without a sign hold."""
WIDEST_BYTES = 9 * 2**32
"""Bytes to it in units of 8: the last of three rows lies beyond FAR units of 16 bytes, too."""
DIFFERENT = 0.05
"""Share of an argument's largest magnitude by which a result differs that was made from another
row; roundings are smaller, or one code of an 8-bit float."""
MOST_BYTES = 14 * 2**30
"""Most bytes of a call's arguments; hardly any of it is memory."""
MOST_WIDEST_BYTES = 2 * WIDEST_BYTES
"""Most bytes of a call whose rows lie WIDEST_BYTES apart, or with an argument of WRAPPED."""
ADDRESSES_BYTES = 8 * MOST_WIDEST_BYTES
"""Most bytes of addresses of the process: what checks for races notes of each element has addresses
too."""
ROWS = 3
VECTOR = 64
"""Elements that any vector divides."""
FEW = 3
"""Calls of an evaluation, of which one has many rows: they take some tenths of a second each. Those
of few elements come beside them."""
FEW_ELEMENTS = 2**14
MOST_KERNELS = (4, 64)
"""Most kernels of a candidate that get far calls of their own, in an evaluation and to confirm a
winner."""


@dataclass(frozen=True)
class _Answer:
    """What a process said of a call."""

    case: Case
    failure: Failure | None = None
    wrote: Mapping[str, int] = field(default_factory=dict)
    """Bytes of each written argument that were stored to, where all blocks ran."""
    stored: tuple[StoredBlocks, ...] = ()
    """Where the blocks that ran stored to."""
    left: Mapping[str, str] = field(default_factory=dict)
    """What each written argument of floats holds, or its first and last rows: bytes as hexadecimal
    digits."""
    wrote_of_left: Mapping[str, str] = field(default_factory=dict)
    """Which of these elements were stored to, where only some blocks ran: bits."""


class FarCalls:
    """Far calls of a task whose addresses the baseline gets right."""

    def __init__(self, runner: Runner) -> None:
        self._given = runner
        self._runner = runner.on_virtual_gpu() if runner.device.kind == "cuda" else runner
        self._answers = dict[str, _Answer | None]()
        """What the baseline did, by a call's text; None where its own process said nothing, too."""
        self.left_out: list[str] = []
        """Calls on which the baseline fails, or that could not be run."""

    def learn_shared(self, confirming: bool) -> None:
        """Run the baseline on the calls that all candidates share; once."""
        self._passed(confirming)

    def fault(
        self,
        built: Build,
        seed: Seed,
        checked: Sequence[Launching] = (),
        *,
        confirming: bool,
        stop: Stop | None = None,
    ) -> Wrong | Failure | None:
        """The first call in which a build leaves its arguments, or what the baseline writes of
        them. `checked`: calls that launch its kernels, which are looked at in a far call, too,
        unless the shared ones launch them. To confirm a winner all shared calls are made and all
        kernels looked at. Raises Cancelled, also once `stop` is set.
        """
        runner = self._runner.seeded(seed)
        if stop is not None:
            runner = replace(runner, stop=stop)
        virtual = self._given.virtual_build(built)
        if not isinstance(virtual, Build):
            return None
        built = virtual
        cases = self._passed(confirming)
        cases += self._of_kernels(runner, built, cases, checked, confirming)
        faults = (
            self._fault_in(answer) for answer in self._answered(runner, built, cases, confirming)
        )
        return next((fault for fault in faults if fault), None)

    def _answered(
        self, runner: Runner, built: Build, cases: Sequence[Case], confirming: bool
    ) -> list[_Answer]:
        """What is said of a candidate's calls. Calls of which a process said nothing, out of time
        or memory, are left out; in a confirmation each gets a process of its own before, until one
        says nothing, too."""
        found, silent = _answers(runner, built, cases)
        while confirming and silent:
            again, lost = _answers(runner, built, silent[:1])
            if lost:
                break
            found, silent = found + again, silent[1:]
        self.left_out += [
            f"{one.label}: it ended early (too large for an oracle)" for one in silent
        ]
        return found

    def _fault_in(self, answer: _Answer) -> Wrong | Unsafe | None:
        """What is wrong with a candidate's call that the baseline passes. Of an argument that is
        read, too, what is to stay as it was need not be written."""
        baseline = self._answers[answer.case.key]
        if answer.failure or not baseline:
            return answer.failure if isinstance(answer.failure, Unsafe) else None
        in_place = {arg.name for arg in self._runner.task.args if arg.read}
        if silent := silent_blocks(answer.stored, baseline.stored, in_place):
            return self._left_out(answer.case, silent)
        return self._unwritten(answer, baseline) or self._different(answer, baseline)

    def _unwritten(self, answer: _Answer, baseline: _Answer) -> Wrong | None:
        """An argument of which a call whose bytes were counted wrote too few."""
        for arg in self._runner.task.args if answer.wrote else ():
            count, wrote = (one.wrote.get(arg.name, 0) for one in (baseline, answer))
            if count and wrote < (1 if arg.read else MIN_SHARE * count):
                item = ITEM_BYTES[arg.dtype_of(answer.case)]
                return Wrong(
                    case=answer.case,
                    argument=arg.name,
                    reason="unwritten",
                    index=(),
                    expected=math.nan,
                    got=math.nan,
                    bad=(count - wrote) // item,
                    total=count // item,
                    note=f"it wrote {wrote:,} bytes, but the baseline wrote {count:,}",
                )
        return None

    def _different(self, answer: _Answer, baseline: _Answer) -> Wrong | None:
        for arg in self._runner.task.args:
            pair = [one.left.get(arg.name, "") for one in (baseline, answer)]
            if not all(pair) or len(pair[0]) != len(pair[1]):
                continue
            dtype = arg.dtype_of(answer.case)
            known, got = (
                as_float(np.frombuffer(bytes.fromhex(one), np.uint8), dtype) for one in pair
            )
            for one in (baseline, answer):
                if bits := one.wrote_of_left.get(arg.name):
                    stored = np.unpackbits(np.frombuffer(bytes.fromhex(bits), np.uint8))
                    known = np.where(stored[: known.size], known, np.nan)
            largest = np.abs(known[np.isfinite(known)]).max(initial=0.0)
            # Neighbours among 8-bit floats are farther apart than that: one code is a rounding.
            code = ulp(np.fmin(np.abs(got), np.abs(known)), dtype) if dtype in SATURATION else 0.0
            allowed = np.maximum(DIFFERENT * largest, code)
            apart = ~(np.abs(got - known) <= allowed) & np.isfinite(known)
            if largest and apart.any():
                at = int(np.argmax(apart))
                shape = arg.shape_of(answer.case)
                place = at if 2 * at < apart.size else at + math.prod(shape) - apart.size
                return Wrong(
                    case=answer.case,
                    argument=arg.name,
                    reason="value",
                    index=tuple(int(i) for i in np.unravel_index(place, shape)),
                    expected=float(known[at]),
                    got=float(got[at]),
                    bad=int(apart.sum()),
                    total=apart.size,
                    note=(
                        "compared with the baseline: rows are far apart in memory, and the"
                        " kernel accesses the wrong place, or not this one"
                    ),
                )
        return None

    def _left_out(self, case: Case, silent: SilentBlocks) -> Wrong:
        arg = next(arg for arg in self._runner.task.args if arg.name == silent.argument)
        return Wrong(
            case=case,
            argument=arg.name,
            reason="unwritten",
            index=(),
            expected=math.nan,
            got=math.nan,
            bad=silent.blocks * silent.nbytes // ITEM_BYTES[arg.dtype_of(case)],
            total=math.prod(arg.shape_of(case)),
            note=silent.note,
        )

    def _of_kernels(
        self,
        runner: Runner,
        built: Build,
        shared: Sequence[Case],
        checked: Sequence[Launching],
        confirming: bool,
    ) -> list[Case]:
        """Far calls of kernels that the shared ones do not launch, near calls that launch them."""
        task, launched = runner.task, set[str]()
        for plan in runner.record(built, shared):
            launched |= _kernels(plan)
        near = dict[str, Case]()
        for case, names in sorted(checked, key=lambda pair: _row(task, pair[0])):
            for name in names - launched:
                near.setdefault(name, case)
        wanted = runner.seed.of("kernels of far calls").random().sample(sorted(near), len(near))
        tries = list[Case]()
        for name in wanted[: MOST_KERNELS[confirming]]:
            like = _beyond_like(task, near[name])
            far = unique([one for one in like if _is_possible(task, one, MOST_WIDEST_BYTES)])
            far.sort(key=lambda case: _row(task, case))
            plans = zip(far, runner.record(built, far), strict=True)
            own = [case for case, plan in plans if name in _kernels(plan)]
            for apart in (True, False):
                tries += [case for case in own if bool(case.pads) == apart][:1]
        tries = unique(tries)
        self._learn(tries)
        return [case for case in tries if self._passes(case)]

    def _passes(self, case: Case) -> bool:
        answer = self._answers[case.key]
        return answer is not None and answer.failure is None

    def _why(self, case: Case) -> str:
        """Why a call is left out, as text."""
        answer = self._answers[case.key]
        return str(Failed(case, answer.failure)) if answer else f"{case.label}: it ended early"

    def _learn(self, cases: Sequence[Case]) -> None:
        """Run the baseline on those of these calls that it has not run. A call of which a process
        said nothing may have met the end of one that others brought on: it gets one of its own."""
        new = [case for case in cases if case.key not in self._answers]
        if not new:
            return
        built = self._baseline()
        self._answers |= {one.case.key: one for one in _answers(self._runner, built, new)[0]}
        for case in new:
            if case.key not in self._answers:
                self._answers[case.key] = next(iter(_answers(self._runner, built, [case])[0]), None)

    def _baseline(self) -> Build:
        runner, what = self._given, f"the baseline of {self._given.task.name}"
        built = build(runner.task, runner.task.baseline, runner.device, runner.stop)
        return require_build(runner.virtual_build(require_build(built, what)), what)

    def _passed(self, confirming: bool) -> list[Case]:
        """The shared calls of a check that the baseline passes: it runs only those, as they come to
        be wanted, once for all candidates."""
        far, ends = self._shared
        tried = len(far)
        if not confirming:
            task, tried = self._runner.task, FEW
            while tried < len(far) and _elements(task, far[tried]) <= FEW_ELEMENTS:
                tried += 1
        self._learn(unique([*far[:tried], *ends]))
        while not confirming and tried < len(far) and self._count(far[:tried]) < FEW:
            self._learn(far[tried : tried + 1])
            tried += 1
        every = unique([*far[:tried], *ends])
        failed = [case for case in every if not self._passes(case)]
        self.left_out = [f"{self._why(case)} (too large for an oracle)" for case in failed]
        return [case for case in every if case not in failed]

    def _count(self, cases: Sequence[Case]) -> int:
        return sum(map(self._passes, cases))

    @cached_property
    def _shared(self) -> tuple[list[Case], list[Case]]:
        return far_calls(self._runner.task), too_large_ends(self._runner.task)


def _kernels(plan: object) -> frozenset[str]:
    """Mangled names of what a call launches; none of a call that was not recorded."""
    return plan.kernel_names if isinstance(plan, LaunchPlan) else frozenset()


def far_calls(task: Task) -> list[Case]:
    """For each argument: few rows that lie far apart, and dims whose product is so large; of each
    kind the legal call with the shortest rows. Then the same for timed calls, for which a kernel
    may have paths of its own. Both parts are in the order of their rows' length, but one of the
    first FEW has many rows, beyond 2^32 elements if possible, and those of few elements come
    next."""
    found: list[Case] = []

    def row(case: Case) -> int:
        return _row(task, case)

    for arg in task.args:
        for cases in (_apart(task, arg), _of_large_dims(task, arg)):
            legal = [case for case in cases if _is_possible(task, case)]
            shortest = min(legal, key=row, default=None)
            if shortest is not None and shortest not in found:
                found.append(shortest)
    timed = unique(
        [case for case in _beside_timed(task) if _is_possible(task, case, MOST_WIDEST_BYTES)]
    )
    parts = found, [case for case in timed if case not in found]
    ordered = [case for part in parts for case in sorted(part, key=row)]
    wrapped = _wrapped(task)
    dense = [case for case in ordered if not case.pads]
    many = [*wrapped, *(case for case in dense if _count_wrapped(task, case)), *dense]
    small = [case for case in parts[0] if case.pads and _elements(task, case) <= FEW_ELEMENTS]
    widest = [min(_widest(task, arg), key=row, default=None) for arg in task.args]
    last = [case for case in widest if case is not None]
    return unique([*ordered[: FEW - 1], *many[:1], *small, *ordered, *wrapped, *last])


def _elements(task: Task, case: Case) -> int:
    return sum(math.prod(arg.shape_of(case)) for arg in task.args)


def _is_possible(task: Task, case: Case, most_bytes: int = MOST_BYTES) -> bool:
    return not any(True for _ in task.flaws(case)) and _bytes(task, case) <= most_bytes


def _apart(task: Task, arg: Arg) -> Iterator[Case]:
    """Few entries of each dim, of which the last lies beyond."""
    for case in _few(task):
        yield from _strided(task, case, arg)


def _widest(task: Task, arg: Arg) -> Iterator[Case]:
    """The valid calls with rows that suit vectors, of which the last of the argument lies
    WIDEST_BYTES behind the first."""
    for case in _few(task, VECTOR):
        for tries in _padded(case, arg, [WIDEST_BYTES // ITEM_BYTES[arg.dtype_of(case)]]):
            yield from (one for one in tries if _is_possible(task, one, MOST_WIDEST_BYTES))


def _wrapped(task: Task) -> list[Case]:
    """For each argument the possible call of a served dtype with the shortest rows, of which the
    last begins WRAPPED elements behind the first, or less than a row more: by 32 bits without a
    sign, within the first one. Those that take most arguments so far come first."""
    served, found = {case.dtype for case, _ in task.bench}, list[Case]()
    for arg in task.args:
        cases = [case for case in _of_large_dims(task, arg, WRAPPED) if case.dtype in served]
        possible = [case for case in cases if _is_possible(task, case, MOST_WIDEST_BYTES)]
        found += sorted(possible, key=lambda case: _row(task, case))[:1]
    return sorted(found, key=lambda case: (-_count_wrapped(task, case), _row(task, case)))


def _count_wrapped(task: Task, case: Case) -> int:
    return sum(math.prod(arg.shape_of(case)) > WRAPPED for arg in task.args)


def _few(task: Task, others: int = ROWS) -> Iterator[Case]:
    """Yields calls with ROWS of what varies most, and `others` of all else."""
    for kind in task.combinations:
        few = {name: task.dims[name].above(others, kind.dtype) for name in task.dims}
        few[most_varied(task)] = task.dims[most_varied(task)].above(ROWS, kind.dtype)
        yield kind.case(legal_near(task, kind, few) or least(task, kind))


def _strided(task: Task, case: Case, arg: Arg) -> Iterator[Case]:
    """The call with a free stride at a time so large that the last entry lies beyond, WIDE where
    that is possible."""
    for tries in _padded(case, arg, (WIDE, FAR)):
        yield next((one for one in tries if _is_possible(task, one)), tries[-1])


def _padded(case: Case, arg: Arg, elements: Sequence[int]) -> Iterator[list[Case]]:
    """For each free stride the call with so large a one that the last entry lies so many elements
    behind the first."""
    free = arg.free_axes if arg.present(case) else ()
    for place, axis in enumerate(free):
        steps = arg.shape_of(case)[axis] - 1
        if steps > 0:
            tries = []
            for far in elements:
                pads = [0] * len(free)
                pads[place] = -(-far // (steps * VECTOR)) * VECTOR
                tries.append(case.model_copy(update={"pads": {arg.name: one_or_all(tuple(pads))}}))
            yield tries


def _beside_timed(task: Task) -> Iterator[Case]:
    """Yields far variants of timed calls that differ in more than the extent that varies most: with
    as much of that as takes an argument beyond, and with rows of an argument far apart."""
    name, calls = most_varied(task), dict[tuple[object, ...], Case]()
    for case, _ in task.bench:
        others = (case.dims[other] for other in task.dims if other != name)
        calls[case.dtype, *case.types.values(), *others] = case
    for case in calls.values():
        yield from _beyond_like(task, case)


def _beyond_like(task: Task, case: Case) -> Iterator[Case]:
    """The call with as much of what varies most as takes an argument beyond WRAPPED elements, or
    FAR, of another dim where that is not enough; and with rows of an argument far apart."""
    kind, name = Combination.of(case), most_varied(task)
    kind = kind if kind in task.combinations else task.combinations[0]
    kept = {"absent": case.absent, "scalars": case.scalars}
    most = {**case.dims, name: task.dims[name].nearest(task.dims[name].max, kind.dtype)}
    for arg in task.args:

        def beyond(dims: Dims, name: str, arg: Arg = arg) -> list[Case]:
            tries = (
                _beyond(task, kind, arg, dims, name, list(case.dims), far) for far in (WRAPPED, FAR)
            )
            cases = (kind.case(found).model_copy(update=kept) for found in tries if found)
            return [one for one in cases if _is_possible(task, one, MOST_WIDEST_BYTES)][:1]

        yield from _strided(task, case.model_copy(update={"packed": ""}), arg)
        found = beyond(dict(case.dims), name)
        yield from found
        for other in task.dims:
            if not found and other != name:
                yield from beyond(most, other)


def _of_large_dims(task: Task, arg: Arg, far: int = FAR) -> Iterator[Case]:
    """One dim at its greatest, another as large as it then has to be; and the first no larger than
    it then has to be."""
    for kind in task.combinations:
        for first in task.dims:
            greatest = task.dims[first].nearest(task.dims[first].max, kind.dtype)
            dims = {**least(task, kind), first: greatest}
            for other in task.dims:
                if other != first and (found := _beyond(task, kind, arg, dims, other, far=far)):
                    fewer = _beyond(task, kind, arg, found, first, [other], far=far)
                    yield kind.case(fewer or found)


def _beyond(
    task: Task,
    kind: Combination,
    arg: Arg,
    dims: Dims,
    name: str,
    kept: Collection[str] = (),
    far: int = FAR,
) -> Dims | None:
    """Returns dims with so many of this one that the argument's last row begins `far` elements
    behind the first, or less than a row more; None where none are legal. `kept`: dims that do not
    change for the sake of relations."""
    each = math.prod(arg.shape_of(kind.case({**dims, name: 1})))
    if not each or math.prod(arg.shape_of(kind.case({**dims, name: 2}))) != 2 * each:
        return None
    wanted = {**dims, name: task.dims[name].above(-(-far // each) + 1, kind.dtype)}
    found = legal_near(task, kind, wanted, kept)
    return found if found and math.prod(arg.shape_of(kind.case(found))) > far else None


def _row(task: Task, case: Case) -> int:
    """Returns the elements that a block may have to go through: the longest row of an argument."""
    return max(math.prod(arg.shape_of(case)[1:]) for arg in task.args)


def _bytes(task: Task, case: Case) -> int:
    return sum(buffer_bytes(arg, case) for arg in task.args)


def _answer(case: Case, report: CaseReport) -> _Answer:
    failure = failure_of(report, case)
    return _Answer(
        case, failure, report.wrote or {}, report.stored, report.left, report.wrote_of_left
    )


def _answers(
    runner: Runner, built: Build, cases: Sequence[Case]
) -> tuple[list[_Answer], list[Case]]:
    """Returns what is said of calls, and those of which their process said nothing since it ended
    early. Calls that the launcher refuses are in neither: that shows elsewhere."""
    recorded = zip(cases, runner.record(built, cases), strict=True)
    planned = [(case, plan) for case, plan in recorded if isinstance(plan, LaunchPlan)]
    found = list[_Answer]()
    if not planned:
        return found, []

    def sandbox(scratch: Path) -> SandboxPolicy:
        return replace(runner.policy((built.folder,), scratch), memory_bytes=ADDRESSES_BYTES)

    with runner.process("check", sandbox, CHILD) as process:
        calls = [
            CallRequest(
                case=case,
                inputs=built.folder,
                after=process.scratch,
                plan=plan,
                seed=runner.seed.of("far call", number),
            )
            for number, (case, plan) in enumerate(planned)
        ]
        request = VirtualRequest(
            task=runner.task.folder,
            ptx=built.ptx,
            spec=runner.device.spec,
            engine="numpy",
            descending=False,
            counters=False,
            compiled={},
            seed=runner.seed,
            calls=tuple(calls),
            resources={r.kernel: (r.registers, r.static_shared_bytes) for r in built.resources},
        )
        try:
            process.worker.ask(
                request.model_dump(mode="json"), TIMEOUT_S, runner.stop, only_work=True
            )
            for report in map(parsed, process.worker.reports()):
                if isinstance(report, CaseReport):
                    found.append(_answer(calls[report.index].case, report))
            process.worker.finish()
        except (StepTimeout, StepMemory, BadReport, IndexError):
            pass
    said = {answer.case.key for answer in found}
    return found, [case for case, _ in planned if case.key not in said]
