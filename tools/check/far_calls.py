"""Calls that reach beyond 2^31 elements, on the virtual GPU: an offset that overflows in 32 bits
lies outside all arguments.

Results are not compared: no oracle makes so many. Cases on which the baseline leaves its arguments
are left out.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from astra_chat.tools.build.nvcc import Build, build, require_build
from astra_chat.tools.check.drawn_dims import Dims, least, legal_near
from astra_chat.tools.check.drawn_layouts import one_or_all
from astra_chat.tools.check.drawn_together import most_varied
from astra_chat.tools.check.failed import Failed
from astra_chat.tools.check.hidden_cases import unique
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.run.failures import Failure, failure_of
from astra_chat.tools.run.protocol import (
    BadReport,
    CallRequest,
    CaseReport,
    VirtualRequest,
    parsed,
)
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import StepTimeout
from astra_chat.tools.task.buffer_layout import buffer_bytes
from astra_chat.tools.task.domain import Combination
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import Case, Unsafe

CHILD = "astra_chat.tools.children.virtual_far"
TIMEOUT_S = 60.0
FAR = 2**31
"""Elements: the first offset that 32 bits with a sign do not hold."""
MOST_BYTES = 14 * 2**30
"""Of addresses a call may take; hardly any of it is memory."""
ADDRESSES_BYTES = 8 * MOST_BYTES
"""Of the process: what checks for races notes of each element has addresses too."""
ROWS = 3
FEW = 2
"""Calls of an evaluation: they take tens of milliseconds each."""


class FarCalls:
    """Of a task, those whose addresses the baseline gets right."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._known: list[Case] | None = None
        self.left_out: list[str] = []
        """Calls on which the baseline fails, or that could not be run."""

    def fault(self, runner: Runner, built: Build, *, confirming: bool) -> Failure | None:
        """The first call in which `built` leaves its arguments: of the FEW with the shortest rows,
        or, to confirm a winner, of all. Raises Cancelled."""
        cases = self._cases()
        found = (one for _, one in _results(runner, built, cases if confirming else cases[:FEW]))
        return next((one for one in found if isinstance(one, Unsafe)), None)

    def _cases(self) -> list[Case]:
        """Found out once, for all candidates."""
        if self._known is None:
            runner = self._runner
            baseline = build(runner.task, runner.task.baseline, runner.device, runner.stop)
            built = require_build(baseline, f"the baseline of {runner.task.name}")
            cases = far_calls(runner.task)
            results = _results(runner, built, cases)
            self._known = [case for case, failure in results if failure is None]
            failed = {case.label: failure for case, failure in results if failure}
            self.left_out = [
                f"{Failed(case, failed.get(case.label))} (beyond 2^31 elements)"
                for case in cases
                if case not in self._known
            ]
        return self._known


def far_calls(task: Task) -> list[Case]:
    """For each argument: few rows that lie far apart, and dims whose product is so large; of each
    kind the legal call with the shortest rows. Then the same for timed calls, for which a kernel
    may have paths of its own. Both parts are in the order of their rows' length."""
    found: list[Case] = []
    for arg in task.args:
        for cases in (_apart(task, arg), _of_large_dims(task, arg)):
            legal = [case for case in cases if _is_possible(task, case)]
            shortest = min(legal, key=lambda case: _row(task, case), default=None)
            if shortest is not None and shortest not in found:
                found.append(shortest)
    timed = unique([case for case in _beside_timed(task) if _is_possible(task, case)])
    parts = found, [case for case in timed if case not in found]
    return [case for part in parts for case in sorted(part, key=lambda case: _row(task, case))]


def _is_possible(task: Task, case: Case) -> bool:
    return not any(True for _ in task.flaws(case)) and _bytes(task, case) <= MOST_BYTES


def _apart(task: Task, arg: Arg) -> Iterator[Case]:
    """Few entries of each dim, of which the last lies beyond."""
    for kind in task.combinations:
        few = {name: _at_least(task, kind, name, ROWS) for name in task.dims}
        yield from _strided(kind.case(legal_near(task, kind, few) or least(task, kind)), arg)


def _strided(case: Case, arg: Arg) -> Iterator[Case]:
    """The call with a free stride at a time so large that the last entry lies beyond."""
    free = arg.free_axes if arg.present(case) else ()
    for place, axis in enumerate(free):
        steps = arg.shape_of(case)[axis] - 1
        if steps > 0:
            pads = [0] * len(free)
            pads[place] = FAR // steps + arg.stride_step(case)
            yield case.model_copy(update={"pads": {arg.name: one_or_all(tuple(pads))}})


def _beside_timed(task: Task) -> Iterator[Case]:
    """Of timed calls that differ in more than the extent that varies most: with as much of that as
    takes an argument beyond, and with rows of an argument far apart."""
    name, calls = most_varied(task), dict[tuple[object, ...], Case]()
    for case, _ in task.bench:
        others = (case.dims[other] for other in task.dims if other != name)
        calls[case.dtype, *case.types.values(), *others] = case
    for case in calls.values():
        kind = Combination.of(case)
        kind = kind if kind in task.combinations else task.combinations[0]
        for arg in task.args:
            yield from _strided(case, arg)
            found = _beyond(task, kind, arg, dict(case.dims), name, list(case.dims))
            if found:
                yield kind.case(found)


def _of_large_dims(task: Task, arg: Arg) -> Iterator[Case]:
    """One dim at its greatest, another as large as it then has to be."""
    for kind in task.combinations:
        for first in task.dims:
            step = task.dims[first].step(kind.dtype)
            dims = {**least(task, kind), first: task.dims[first].max // step * step}
            for other in task.dims:
                if other != first and (found := _beyond(task, kind, arg, dims, other)):
                    yield kind.case(found)


def _beyond(
    task: Task, kind: Combination, arg: Arg, dims: Dims, name: str, kept: Collection[str] = ()
) -> Dims | None:
    """With so many of this dim that the argument has FAR elements and some rows more. `kept`: dims
    that do not change for the sake of relations."""
    each = math.prod(arg.shape_of(kind.case({**dims, name: 1})))
    if not each or math.prod(arg.shape_of(kind.case({**dims, name: 2}))) != 2 * each:
        return None
    wanted = {**dims, name: _at_least(task, kind, name, FAR // each + ROWS)}
    found = legal_near(task, kind, wanted, kept)
    return found if found and math.prod(arg.shape_of(kind.case(found))) > FAR else None


def _at_least(task: Task, kind: Combination, name: str, extent: int) -> int:
    dim = task.dims[name]
    step = dim.step(kind.dtype)
    return min(
        dim.max // step * step, max(dim.nearest(dim.min, kind.dtype), -(-extent // step) * step)
    )


def _row(task: Task, case: Case) -> int:
    """What a block may have to go through."""
    return max(math.prod(arg.shape_of(case)[1:]) for arg in task.args)


def _bytes(task: Task, case: Case) -> int:
    return sum(buffer_bytes(arg, case) for arg in task.args)


def _results(
    runner: Runner, built: Build, cases: Sequence[Case]
) -> list[tuple[Case, Failure | None]]:
    """Of each call, as far as there is one: what a launcher refuses shows elsewhere, and a process
    that ends early says nothing."""
    recorded = zip(cases, runner.record(built, cases), strict=True)
    planned = [(case, plan) for case, plan in recorded if isinstance(plan, LaunchPlan)]
    found: list[tuple[Case, Failure | None]] = []
    if not planned:
        return found

    def sandbox(scratch: Path) -> SandboxPolicy:
        return replace(runner.policy((built.folder,), scratch), memory_bytes=ADDRESSES_BYTES)

    with runner.process("check", sandbox, CHILD) as process:
        calls = [
            CallRequest(
                case=case, inputs=built.folder, after=process.scratch, plan=plan,
                seed=runner.seed.of("far call", number),
            )
            for number, (case, plan) in enumerate(planned)
        ]  # fmt: skip
        request = VirtualRequest(
            task=runner.task.folder, ptx=built.ptx, spec=runner.device.spec, engine="numpy",
            descending=False, counters=False, compiled={}, seed=runner.seed, calls=tuple(calls),
            resources={r.kernel: (r.registers, r.static_shared_bytes) for r in built.resources},
        )  # fmt: skip
        try:
            process.worker.ask(
                request.model_dump(mode="json"), TIMEOUT_S, runner.stop, only_work=True
            )
            for report in map(parsed, process.worker.reports()):
                if isinstance(report, CaseReport):
                    case = calls[report.index].case
                    found.append((case, failure_of(report, case)))
            process.worker.finish()
        except (StepTimeout, StepMemory, BadReport, IndexError):
            pass
    return found
