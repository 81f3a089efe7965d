"""Kernels of one task timed beside each other by the judge's own way of timing, on a real GPU."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Literal

from astra_chat.models.script import load_script, scripted_names
from astra_chat.tools.build.hosted import hosted_library
from astra_chat.tools.build.nvcc import Build, build_all
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.timing.verdict import time_cases
from astra_chat.tools.types import BuildFailed, Case, Device, MeasuredTime, candidate_id
from astra_vgpu.ground.errors import AstraError, BadInput
from astra_vgpu.ground.gpu_specs import spec
from lab.baselines.captured import capture_plans
from lab.baselines.evidence import Comparison, Kernel
from lab.baselines.foreign import Foreign, Places, foreign_kernels
from lab.baselines.streaming import (
    VARIANTS,
    empty_source,
    streamed_bytes,
    streaming_source,
    streams,
    sweep_source,
)
from lab.baselines.torch_rivals import IN_TORCH, TorchRival, timed_beside_torch

Tell = Callable[[str], None]
Stage = Literal["winner", "foreign", "empty", "streaming"]
FAILURE_CHARACTERS = 400
LIKELY = (
    *("triton", "triton-pdl", "cute", "cute-pdl", "jit", "jit-pdl"),
    *("headers", "headers-pdl", "library", "torch-linear", "torch-mm", "torch-native"),
    *("torch-router", "torch-sdpa", "torch-fused-moe", "torch-cross-entropy"),
)
"""Kernels of today, those first that engines launch first."""


@dataclass(frozen=True)
class Side:
    """A built kernel and what to call it."""

    kernel: Kernel
    source: str
    task: Task
    headers: tuple[Path, ...] = ()
    takes: Callable[[Case], bool] = lambda _: True
    precise: bool = True
    """Its results are held against the oracle where it is the first; as the second they always
    are."""
    cubin: Path | None = None
    """Where its kernels are, if its source holds a launcher only."""
    operator: str = ""
    """An operator of PyTorch's (torch_child.py), which has no source; always the first."""

    def cases_of(self, task: Task) -> list[Case]:
        """The timed cases of the task that it takes."""
        return [case for case, _ in task.bench if self.takes(case)]


@dataclass(frozen=True)
class Pair:
    """Two kernels to be timed beside each other, on the cases that both take."""

    first: Side
    second: Side
    weighted: Sequence[tuple[Case, float]]
    stage: Stage = "foreign"


class Beside:
    """Times pairs of kernels of one task; inputs and results are made once for all of them."""

    def __init__(self, task: Task, device: Device, tell: Tell = lambda _: None) -> None:
        """Raises BadInput unless the device is a real GPU: an estimate compares no baselines."""
        if device.kind != "cuda":
            raise BadInput("kernels are timed side by side on a GPU: --device cuda")
        self._task, self._device, self._tell = task, device, tell
        self._runner, self._oracle = Runner(task, device), Oracle(task)
        self._root = tempfile.TemporaryDirectory(prefix="astra-beside-")
        self._folder = Path(self._root.name)
        self._libraries: dict[Kernel, Build] = {}
        """Captured launchers' kernels."""
        self._capturing = Lock()

    def __enter__(self) -> Beside:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.dismiss()
        self._oracle.close()
        self._root.cleanup()

    @property
    def task(self) -> Task:
        return self._task

    def pairs(self, places: Places) -> Iterator[Pair]:
        """Ours against the real ones; the best, where the task has one, against these; the best or
        ours against an empty kernel and against streaming."""
        task, ours = self._task, tier_side(self._task, "sglang")
        best = best_side(task) if task.name in scripted_names() else None
        for foreign in foreign_kernels(task, places):
            theirs = foreign_side(foreign)
            first, second = (ours, theirs) if theirs.precise else (theirs, ours)
            yield Pair(first, second, task.bench)
            if best is not None:
                yield Pair(theirs, best, task.bench)
        for rival in IN_TORCH.get(task.name, ()):
            for own in filter(None, (ours, best)):
                yield Pair(torch_side(task, rival), own, task.bench)
        mine = best or ours
        yield Pair(empty_side(task), mine, task.bench, "empty")
        if sweep := sweep_side(task):
            yield Pair(sweep, mine, task.bench, "empty")
        if not streams(task):
            return
        l2_bytes = spec(self._device.spec).l2_bytes
        large = [row for row in task.bench if task.least_bytes(row[0]) > l2_bytes]
        for index in range(len(VARIANTS)):
            rows = task.bench if index < 2 else large
            if rows:
                yield Pair(streaming_side(task, index), mine, rows, "streaming")

    def winner_pairs(self, places: Places, winner: Side) -> Iterator[Pair]:
        """A live run's winner against each kernel of today, the likely fastest first."""
        found = [one for one in foreign_kernels(self._task, places) if one.tier == "today"]
        for foreign in sorted(found, key=lambda one: LIKELY.index(one.name)):
            yield Pair(foreign_side(foreign), winner, self._task.bench, "winner")

    def make_inputs(self) -> None:
        """Inputs and results of all timed cases, which `compare` else makes when it needs them.
        Raises BadInput."""
        self._oracle.oracle_cases([case for case, _ in self._task.bench], Stop())

    def make_ready(self, side: Side) -> None:
        """Build a side and record what it launches, which `compare` else does. Threads may call
        this together. Raises BadInput and AstraError."""
        if side.operator:
            return
        cases = side.cases_of(self._task)
        if isinstance(built := self._built(side), Build) and cases:
            self._runner.record(built, cases)

    def start_process(self, count: int) -> None:
        """Have so many processes to time in waiting: to load torch takes seconds."""
        self._runner.prepare("time", self._oracle.inputs, count)

    def compare(self, pair: Pair) -> Comparison:
        """One comparison; kernels that do not build or run, or of which a first one is wrong, are a
        comparison without cases."""
        first, second = pair.first, pair.second
        rows = [row for row in pair.weighted if first.takes(row[0]) and second.takes(row[0])]
        self._tell(f"{self._task.name}: {second.kernel.name} over {first.kernel.name}")
        try:
            found = self._timed(first, second, rows)
        except AstraError as error:
            found = str(error)[:FAILURE_CHARACTERS]
        cases = found if isinstance(found, tuple) else ()
        streamed = cases if pair.stage == "streaming" else ()
        return Comparison(
            task=self._task.name,
            first=first.kernel,
            second=second.kernel,
            cases=cases,
            first_bytes=tuple(streamed_bytes(self._task, case.case) for case in streamed),
            failure="" if isinstance(found, tuple) else found,
        )

    def _built(self, side: Side) -> Build | str:
        """A side's kernels, or why there are none."""
        built = build_all(side.task, [side.source], self._device, headers=side.headers)[0]
        if not isinstance(built, Build):
            log = built.log if isinstance(built, BuildFailed) else "it took too long"
            return f"{side.kernel.name} does not build: {log}"[:FAILURE_CHARACTERS]
        if side.cubin is None:
            return built
        with self._capturing:
            if side.kernel not in self._libraries:
                captured = self._captured(side, built, side.cases_of(self._task))
                self._libraries[side.kernel] = captured
            return self._libraries[side.kernel]

    def _captured(self, side: Side, built: Build, cases: Sequence[Case]) -> Build:
        """The kernels of a library with plans of what the launcher does with them."""
        assert side.cubin is not None
        folder = self._folder / side.kernel.tier
        folder.mkdir(exist_ok=True)
        cubin = Path(shutil.copy(side.cubin, folder / "kernel.cubin"))
        of_library = Build(folder, (), cached=False, seconds=0.0)
        seed = self._runner.seed.of("captured", side.kernel.tier)
        plans = capture_plans(
            side.task, hosted_library(built), cubin, cases, self._device, seed, self._runner.stop
        )
        self._runner.keep_plans(of_library, plans)
        return of_library

    def _timed(
        self, first: Side, second: Side, rows: Sequence[tuple[Case, float]]
    ) -> tuple[MeasuredTime, ...] | str:
        builds = []
        for side in (second,) if first.operator else (first, second):
            if not isinstance(built := self._built(side), Build):
                return built
            builds.append(built)
        if first.operator:
            return timed_beside_torch(
                self._task, first.operator, builds[0], rows, self._device, self._runner.stop
            )
        oracle_cases = self._oracle.oracle_cases([case for case, _ in rows], Stop())
        weights = [weight for _, weight in rows]
        pairs = list(zip(oracle_cases, weights, strict=True))
        timed = time_cases(
            self._runner,
            self._oracle,
            builds[1],
            builds[0],
            pairs,
            correct_baseline=first.precise,
        )
        if not isinstance(timed, list):
            return f"{timed.kind}: {timed}"[:FAILURE_CHARACTERS]
        return tuple(t.time for t in timed if isinstance(t.time, MeasuredTime))


def tier_side(task: Task, tier: str) -> Side:
    """A tier of the task's own folder."""
    from astra_chat.tools.task.tiers import baseline_source

    source = baseline_source(task, tier)
    kernel = Kernel(
        name=tier, tier=tier, what="the task's own baseline", content=candidate_id(source)
    )
    return Side(kernel, source, task)


def best_side(task: Task) -> Side:
    """The kernel that the task's scripted run ends with."""
    script = load_script(task)
    last = script.rounds[-1]
    file = (last.coder, *last.fixer)[-1].name
    source = script.sources[file]
    kernel = Kernel(
        name="best", tier="best", what=f"script/{file} of the task", content=candidate_id(source)
    )
    return Side(kernel, source, task)


def winner_file(folder: Path, task: str, spec: str) -> Path:
    """Returns where a live runs' winner lies: `spec` is h100 or h200."""
    return folder / f"{task}-{spec}.cu"


def winner_side(task: Task, folder: Path, spec: str) -> Side | None:
    """The live runs' winner of a task on a kind of GPU, as lab.winner_files wrote it, if there is
    one."""
    path = winner_file(folder, task.name, spec)
    if not path.is_file():
        return None
    source = path.read_text()
    kernel = Kernel(
        name="winner",
        tier="winner",
        what=f"the winner of the fastest live run on an {spec.upper()}",
        content=candidate_id(source),
    )
    return Side(kernel, source, task)


def foreign_side(foreign: Foreign) -> Side:
    kernel = Kernel(
        name=foreign.name, tier=foreign.tier, what=foreign.what, content=foreign.content
    )
    return Side(
        kernel,
        foreign.source,
        foreign.task,
        foreign.headers,
        foreign.takes,
        foreign.precise,
        foreign.cubin,
    )


def torch_side(task: Task, rival: TorchRival) -> Side:
    kernel = Kernel(
        name=rival.name, tier="today", what=rival.what, content=candidate_id(rival.what)
    )
    return Side(kernel, "", task, operator=rival.name)


def empty_side(task: Task) -> Side:
    source = empty_source(task)
    kernel = Kernel(
        name="empty",
        tier="empty",
        what="one launch of a kernel that does nothing",
        content=candidate_id(source),
    )
    return Side(kernel, source, task, precise=False)


def sweep_side(task: Task) -> Side | None:
    """A read of what a call must read, of tasks whose data says what that is."""
    if (source := sweep_source(task)) is None:
        return None
    kernel = Kernel(
        name="sweep",
        tier="sweep",
        what="a read of what the call needs, once, and nothing computed",
        content=candidate_id(source),
    )
    return Side(kernel, source, task, precise=False)


def streaming_side(task: Task, index: int) -> Side:
    variant = VARIANTS[index]
    source = streaming_source(task, variant)
    kernel = Kernel(
        name=f"streaming {variant.name}",
        tier="streaming",
        what="the task's mix of reads and writes, nothing computed",
        content=candidate_id(source),
    )
    return Side(kernel, source, task, precise=False)
