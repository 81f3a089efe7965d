"""The launch plans of a run: one for each call, or why there is none; recorded once a case."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Annotated

from pydantic import Field, TypeAdapter

from astra_chat.tools.build.disassembly import machine_code_of
from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.entropy import Seed
from astra_chat.tools.plan.model import (
    POINTER_BYTES,
    TENSOR_MAP_BYTES,
    ArgumentAddress,
    KernelNode,
    LaunchPlan,
    PointerRelocation,
    Relocation,
)
from astra_chat.tools.plan.process import RECORD_TIMEOUT_S
from astra_chat.tools.plan.record import Outcome, record_each
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.system.background import begins_ahead
from astra_chat.tools.system.forked import server_of
from astra_chat.tools.system.subprocesses import StepTimeout, Stop, Worker, signal_name
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, Crashed, Device, Refused, TimedOut, Unsafe, Unsupported
from astra_chat.tools.virtual_gpu.adapter import (
    ALLOWED,
    WAIT,
    WHEN,
    EarlyAccesses,
    LaunchParameters,
    early_accesses,
    early_loads,
)
from astra_vgpu.ground.errors import AstraError
from astra_vgpu.ground.gpu_specs import spec

MAX_CRASHES = 5
"""Cases on which a launcher ends its process before it is tried on no more. What returns an error
ends nothing."""
MAX_KEPT = 20_000
"""Most plans that are kept."""
Recorded = LaunchPlan | Failure
Key = tuple[Path, str, str]
CHILD = "astra_chat.tools.runners.recorded_plans"
MANY = 64
"""Cases from which on a process of their own is worth its start."""
PATIENCE = 10.0
"""The process's limit of time over that of a recorder."""
_OUTCOME: TypeAdapter[Outcome] = TypeAdapter(
    Annotated[Refused | Crashed | TimedOut, Field(discriminator="kind")]
)
Found = tuple[LaunchPlan | Crashed, ...] | Outcome


def all_or_failure(recorded: Sequence[Recorded]) -> list[LaunchPlan] | Failure:
    """The plans of all calls, or why the first call that has none has none."""
    plans = list[LaunchPlan]()
    for one in recorded:
        if not isinstance(one, LaunchPlan):
            return one
        plans.append(one)
    return plans


@dataclass
class LaunchPlans:
    """Records the launchers of one task's builds, and keeps what they launch: a case that was
    checked is timed by the same plan."""

    task: Task
    device: Device
    stop: Stop
    kept: dict[Key, LaunchPlan] = field(default_factory=dict)
    """Plans by build, launcher and case."""
    _early: EarlyReads | None = None
    _one: RLock = field(default_factory=RLock)
    """Threads that ask for the same plans: one records, the other finds them."""

    def of(
        self, build: Build, cases: Sequence[Case], entries: Sequence[str] | None, seed: Seed
    ) -> list[Recorded]:
        """What each call launches, or why that cannot be said. `entries`: the launcher of each call
        where it is not the task's. Raises what record.record raises."""
        called = entries or [self.task.entry] * len(cases)
        found: dict[int, Recorded] = {}
        for entry in dict.fromkeys(called):
            which = [i for i, name in enumerate(called) if name == entry]
            task = self.task.model_copy(update={"entry": entry})
            recorded = self._known(build, entry, [cases[i] for i in which])
            if recorded is None:
                with self._one:
                    wanted = [cases[i] for i in which]
                    recorded = self._recorded(build, task, wanted, seed.of(entry))
            found |= zip(which, recorded, strict=True)
        return [self._waiting(build, found[i]) for i in range(len(cases))]

    def _known(self, build: Build, entry: str, cases: Sequence[Case]) -> Sequence[Recorded] | None:
        """Returns the plans of these cases where all are kept, without waiting for others that are
        being recorded."""
        kept = self.kept
        plans = [kept.get((build.folder, entry, case.key)) for case in cases]
        return None if any(plan is None for plan in plans) else [p for p in plans if p is not None]

    def _waiting(self, build: Build, recorded: Recorded) -> Recorded:
        """Returns what was recorded, or as a fault what a programmatic launch of the plan touches
        before it waits. Raises what EarlyReads.fault raises."""
        if not isinstance(recorded, LaunchPlan):
            return recorded
        if self._early is None:
            weights = {arg.name for arg in self.task.args if arg.weight}
            self._early = EarlyReads(weights, self.stop)
        return self._early.fault(build, recorded) or recorded

    def keep(self, build: Build, plans: Sequence[LaunchPlan]) -> None:
        """Take these as what the build's launcher launches: they were captured elsewhere."""
        for plan in plans:
            self.kept[build.folder, self.task.entry, plan.case.key] = plan

    def _recorded(
        self, build: Build, task: Task, cases: Sequence[Case], seed: Seed
    ) -> list[Recorded]:
        """Returns what was recorded for each case of one launcher; cases may repeat. A launcher
        that is refused on a case has no plan for any; one that crashes, or returns an error, has
        none for that case."""
        keys = [(build.folder, task.entry, case.key) for case in cases]
        left = {key: case for key, case in zip(keys, cases, strict=True) if key not in self.kept}
        failed: dict[Key, Failure] = {}
        crashes = 0
        if len(self.kept) + len(left) > MAX_KEPT:
            self.kept = {key: plan for key, plan in self.kept.items() if key in keys}
        while left:
            draws = seed.of(crashes)
            result = recorded(build, task, [*left.values()], self.device, draws, self.stop)
            if isinstance(result, tuple):
                for key, one in zip(left, result, strict=True):
                    if isinstance(one, LaunchPlan):
                        self.kept[key] = one
                    else:
                        failed[key] = one
                break
            crashes += 1
            if not isinstance(result, Crashed) or crashes == MAX_CRASHES:
                failed |= dict.fromkeys(left, result)
                break
            key = (build.folder, task.entry, result.case.key)
            failed[key] = result
            del left[key]
        return [failed[key] if key in failed else self.kept[key] for key in keys]


def recorded(
    build: Build, task: Task, cases: Sequence[Case], device: Device, seed: Seed, stop: Stop
) -> Found:
    """What `record_each` finds with draws from `seed`, and raises; of many cases in a process of
    their own, where this machine has cores for it and starts such processes quickly: to record a
    thousand takes seconds of Python, in which the judge's other threads would wait for the
    interpreter, those that compare results. What is recorded depends on the seed only."""
    if len(cases) < MANY or not begins_ahead() or server_of(CHILD) is None:
        return record_each(build, task, cases, spec(device.spec), seed.random(), stop=stop)
    return recorded_apart(build, task, cases, device, seed, stop)


def recorded_apart(
    build: Build, task: Task, cases: Sequence[Case], device: Device, seed: Seed, stop: Stop
) -> Found:
    """Does what `recorded` does, in a process of its own in any case."""
    with tempfile.TemporaryDirectory(prefix="astra-plans-") as name:
        folder = Path(name)
        (folder / "cases").write_text("".join(f"{case.model_dump_json()}\n" for case in cases))
        (folder / "source").write_text(build.source)
        asked = {
            "folder": name,
            "task": str(task.folder.resolve()),
            "entry": task.entry,
            "build": str(build.folder.resolve()),
            "spec": device.spec,
            "seed": seed.text,
        }
        each = _each(asked, stop)
        lines = (folder / "plans").read_text().splitlines()
    if not each:
        return _OUTCOME.validate_json(lines[0])
    return tuple(_one(line) for line in lines)


def _one(line: str) -> LaunchPlan | Crashed:
    if line.startswith('{"kind":'):
        return Crashed.model_validate_json(line)
    return LaunchPlan.model_validate_json(line)


def _each(asked: dict[str, str], stop: Stop) -> bool:
    """Ask a process; returns whether it found something for each case, or one thing for all."""
    limit_s = PATIENCE * RECORD_TIMEOUT_S
    with Worker(CHILD, server=server_of(CHILD)) as worker:
        worker.ask(asked, limit_s, stop)
        try:
            for report in worker.reports():
                return bool(report["each"])
            end = worker.finish()
        except StepTimeout:
            raise AstraError(f"recording launch plans took more than {limit_s:.0f} s") from None
    raise AstraError(f"the process that records launch plans was {signal_name(end.returncode)}")


# Programmatic launches of a plan, held against the kernels' PTX and machine code: every path to an
# access of an argument's memory has to pass griddepcontrol.wait. It needs no GPU, and no case.
#
# What happens thread by thread the virtual GPU sees while it runs a kernel.

INSTEAD = (
    "ptxas may do that with ld.global.nc, which says that nobody writes to the memory while the"
    " kernel runs: read it by a plain load, through a pointer that is not const __restrict__ and"
    " without __ldg, or by __ldcg"
)
"""Why the machine code loads before the wait, and what to write instead."""


@dataclass
class EarlyReads:
    """The kernels of one task's candidates that were looked at so far."""

    weights: Collection[str]
    """Arguments that hold the same in every call."""
    stop: Stop = field(default_factory=Stop)
    _kernels: dict[tuple[Path, str], EarlyAccesses | None] = field(default_factory=dict)
    _loads: dict[tuple[Path, str], tuple[int, ...] | None] = field(default_factory=dict)
    """PTX lines of what a kernel's machine code loads before its wait; None: it cannot be read."""

    def fault(self, build: Build, plan: LaunchPlan) -> Unsafe | Unsupported | None:
        """What a programmatic launch of the plan touches too early; None also for a kernel whose
        control flow is not known, which the virtual GPU refuses by name. Raises Cancelled, and
        MissingDependency without nvdisasm."""
        for node in plan.kernels:
            if not node.programmatic or (accesses := self._of(build.ptx, node.kernel)) is None:
                continue
            found = self._in_ptx(node, accesses) or self._in_machine_code(build, node, accesses)
            if isinstance(found, Unsupported):
                return found
            if found is not None:
                what, line = found
                where = f"kernel {node.kernel}" + (f", {line}" if line else "")
                return Unsafe(case=plan.case, what=what, where=where)
        return None

    def _in_ptx(self, node: KernelNode, accesses: EarlyAccesses) -> tuple[str, str] | None:
        """Returns what is wrong, and where in the kernel."""
        if not accesses.waits:
            what = (
                "launched with PDL, so it may start before the preceding work has ended, and it"
                f" never waits for that work ({WAIT})"
            )
            return what, ""
        allowed = self._allowed(node)
        if (early := accesses.first(allowed, _parameters(node))) is None:
            return None
        names = _names(node, set(accesses.arguments(early)) - allowed)
        what = f"race: some path skips {WAIT} and reaches {names}, {WHEN} ({ALLOWED})"
        return what, early.place

    def _in_machine_code(
        self, build: Build, node: KernelNode, accesses: EarlyAccesses
    ) -> tuple[str, str] | Unsupported | None:
        """Returns the same for what ptxas moved before the wait."""
        loads, allowed = self._loads_of(build, node.kernel), self._allowed(node)
        if loads is None:
            what = f"{WAIT} in a kernel whose machine code nvdisasm cannot read"
            return Unsupported(what=what, kernel=node.kernel, opcode=WAIT, line=0)
        if (moved := accesses.moved(loads, allowed, _parameters(node))) is None:
            return None
        names = _names(node, set(accesses.arguments(moved)) - allowed)
        what = f"race: the machine code loads {names} before {WAIT}, {WHEN} ({INSTEAD})"
        return what, moved.place

    def _of(self, ptx: Path, kernel: str) -> EarlyAccesses | None:
        if (ptx, kernel) not in self._kernels:
            # Nothing here built the kernels of a plan that was captured.
            known = early_accesses(ptx, kernel) if ptx.is_file() else None
            self._kernels[ptx, kernel] = known
        return self._kernels[ptx, kernel]

    def _loads_of(self, build: Build, kernel: str) -> tuple[int, ...] | None:
        if (build.ptx, kernel) not in self._loads:
            text = machine_code_of(build, self.stop)
            self._loads[build.ptx, kernel] = _early_loads(text, kernel) if text else None
        return self._loads[build.ptx, kernel]

    def _allowed(self, node: KernelNode) -> set[int]:
        """Offsets of the parameters through which a kernel may read before the wait: those that
        point to weights or variables of the file, and those that are no addresses at all, such as
        an extent by which a weight's place is computed, or that chooses between two weights."""
        places = [_place(r) for r in node.relocations if not _is_constant(r, self.weights)]
        forbidden = (range(at, at + size) for at, size in (*places, *node.undefined))
        return set(range(len(node.parameters))).difference(*forbidden)


def _early_loads(text: Path, kernel: str) -> tuple[int, ...] | None:
    try:
        return early_loads(text, kernel)
    except (OSError, ValueError, KeyError):
        return None


def _is_constant(relocation: Relocation, weights: Collection[str]) -> bool:
    """Whether it points to what is the same in every call."""
    if not isinstance(relocation, PointerRelocation):
        return False
    to = relocation.to
    return not isinstance(to, ArgumentAddress) or to.name in weights


def _names(node: KernelNode, offsets: Collection[int]) -> str:
    """The arguments that these parameters point to."""
    names = [
        relocation.to.name
        for relocation in node.relocations
        if isinstance(relocation, PointerRelocation) and relocation.at in offsets
    ]
    return " or ".join(dict.fromkeys(names)) or "an argument's memory"


def _parameters(node: KernelNode) -> LaunchParameters:
    """What is known of a launch's parameters: not the addresses, nor what was left undefined."""
    addresses = map(_place, node.relocations)
    return LaunchParameters(node.parameters, (*addresses, *node.undefined))


def _place(relocation: Relocation) -> tuple[int, int]:
    """Where an address lies among the parameters, and its bytes there."""
    is_pointer = isinstance(relocation, PointerRelocation)
    return relocation.at, POINTER_BYTES if is_pointer else TENSOR_MAP_BYTES
