"""Runs a built candidate in a runner process and returns its outputs, case by case.

A candidate's host code runs in the plan recorder only (tools/plan/); the runner process gets its
device code and launch plans.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.entropy import Entropy, Seed
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.run.batch import SHORT_BYTES, Batch
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.failures import Failure, failure_of, last_line
from astra_chat.tools.run.known_baseline import KnownBaseline
from astra_chat.tools.run.launch_plans import LaunchPlans, Recorded, all_or_failure
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.output_files import taken
from astra_chat.tools.run.poison import left_there
from astra_chat.tools.run.processes import ProcessPool, RunnerProcess
from astra_chat.tools.run.protocol import (
    BadReport,
    CallRequest,
    CaseReport,
    CudaRequest,
    Mode,
    Started,
    VirtualRequest,
    parsed,
)
from astra_chat.tools.run.virtual_requests import VirtualRequests
from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.cache import cache_folder
from astra_chat.tools.system.devices import gpu_uuid, virtual_device
from astra_chat.tools.system.gpu_lock import lease
from astra_chat.tools.system.gpu_use import GpuClock, clock_of
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import StepTimeout, Stop, signal_name
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, Crashed, Device, How, StepName, TimedOut
from astra_chat.tools.virtual_gpu.types import Engine

VIRTUAL_MEMORY_BYTES = 16 * 2**30


@dataclass
class Runner:
    """Runs candidates of one task on one device."""

    task: Task
    device: Device
    stop: Stop = field(default_factory=Stop)
    engine: Engine = "auto"
    """Engine of the virtual GPU."""
    descending: bool = False
    """Atomics are served in another order; by its engine numpy alone."""
    least_blocks: int | None = None
    """Least number of timed blocks on a GPU, for measurements of the judge itself; None: as few as
    suffice."""
    on_wait: Callable[[StepName, str], None] = lambda *_: None
    """Called with a step and the holder of the GPU while that step waits for it."""
    seed: Seed = field(default_factory=lambda: Entropy().cases)
    """All that its runs draw, in the runner process too, derives from this."""
    known: KnownBaseline = field(default_factory=KnownBaseline)
    pool: ProcessPool = field(default_factory=ProcessPool)
    _libraries: dict[Path, dict[str, Path | None]] = field(default_factory=dict)
    """Libraries of the C engine, by PTX file and kernel."""
    _long_running: set[Path] = field(default_factory=set)
    _plans: LaunchPlans | None = None
    gpu: GpuClock | None = None  # of its leases; None without a real GPU

    def __post_init__(self) -> None:
        self.gpu = self.gpu or clock_of(self.device)
        self._plans = self._plans or LaunchPlans(self.task, self.device, self.stop)

    def seeded(self, seed: Seed) -> Runner:
        """Returns this runner, with its processes and libraries, whose runs draw from `seed`."""
        return replace(self, seed=seed)

    def on_virtual_gpu(self) -> Runner:
        """Returns a runner of the same task on the virtual GPU that stands for this device."""
        device = virtual_device(self.device.spec)
        return Runner(self.task, device, self.stop, self.engine, seed=self.seed)

    def prepare(self, mode: Mode, inputs: Path, count: int = 1, child: str = "") -> None:
        """Start processes of runs to come, until `count` wait with their libraries loaded; of
        `child`, where it is another program than the device's.

        They touch no GPU and no candidate before they are asked. `inputs` is the folder in which
        the runs' inputs will lie, and no expected outputs.
        """
        if self.device.kind == "cuda":
            self.pool.prepare(
                child or self._module(),
                mode,
                count,
                lambda builds, scratch: self.policy((builds, inputs), scratch),
            )

    def dismiss(self) -> None:
        """End the processes that were prepared and not used."""
        self.pool.dismiss()

    @property
    def _virtual(self) -> VirtualRequests:
        return VirtualRequests(
            self.task,
            self.device,
            self.engine,
            self.stop,
            self._libraries,
            self._long_running,
            self.descending,
        )

    def _module(self) -> str:
        return f"astra_chat.tools.runners.{self.device.kind}"

    @contextmanager
    def leased(self, step: StepName, *, alone: bool) -> Iterator[None]:
        """Hold the real GPU: alone for a measurement, shared for a check (system/gpu_lock.py)."""
        if self.gpu is None:
            yield
            return
        uuid, work = gpu_uuid(self.device.index), f"{step} of {self.task.name}"
        with self.gpu.around(lease(uuid, work, alone, self.stop, partial(self.on_wait, step))):
            yield

    def run(
        self,
        build: Build,
        oracle_cases: Sequence[OracleCase],
        mode: Mode,
        baseline: Build | None = None,
        hows: Sequence[How] | None = None,
        entries: Sequence[str] | None = None,
        turns: Sequence[int] | None = None,
    ) -> Iterator[CaseRun | Failure]:
        """Yield each case's run, or the failure that ended the process; `hows` says how each.

        What a call draws depends on its number in `turns`, which is its place where there are none.

        `entries`: which of the library's launchers each case calls. On the virtual GPU they have
        nothing to do with each other, so a failure ends its call only, which has a limit of time of
        its own; what ends the process still ends the run, as any failure on a real GPU does.
        """
        plans = self.plans(build, oracle_cases, entries)
        timed_beside = baseline if self.device.kind == "cuda" else None
        beside = all_or_failure(self.plans(timed_beside, oracle_cases) if timed_beside else [])
        if not isinstance(beside, list):
            yield beside
            return
        whole = [] if entries else all_or_failure(plans)
        if not isinstance(whole, list):
            yield whole
            return
        good = [(i, plan) for i, plan in enumerate(plans) if isinstance(plan, LaunchPlan)]
        batch = Batch(
            build,
            [oracle_cases[i] for i, _ in good],
            mode,
            self.device.kind,
            baseline,
            baseline_plans=[beside[i] for i, _ in good] if beside else None,
            hows=hows and [hows[i] for i, _ in good],
            turns=[(turns or range(len(plans)))[i] for i, _ in good],
            plans=[plan for _, plan in good],
            apart=bool(entries) and self.device.kind == "virtual",
            short=[self.task.least_bytes(oracle_cases[i].case) <= SHORT_BYTES for i, _ in good],
        )
        runs = self._runs(batch)
        for plan in plans:
            found = next(runs, None) if isinstance(plan, LaunchPlan) else plan
            if found is None:
                return
            yield found

    def plans(
        self, build: Build, oracle_cases: Sequence[OracleCase], entries: Sequence[str] | None = None
    ) -> list[Recorded]:
        """What each call launches, or why that cannot be said; `entries` as of `run`."""
        return self.record(build, [oracle_case.case for oracle_case in oracle_cases], entries)

    def record(
        self, build: Build, cases: Sequence[Case], entries: Sequence[str] | None = None
    ) -> list[Recorded]:
        """Returns what the launcher launches on each case, or why that cannot be said; no inputs
        need be made. `entries` as of `run`."""
        assert self._plans is not None
        return self._plans.of(build, cases, entries, self.seed.of("recorder"))

    def keep_plans(self, build: Build, plans: Sequence[LaunchPlan]) -> None:
        """Keep the plans of a build whose launcher the recorder cannot run (plan/captured.py)."""
        assert self._plans is not None
        self._plans.keep(build, plans)

    def _runs(self, batch: Batch) -> Iterator[CaseRun | Failure]:
        """The calls in one runner process; on the virtual GPU all of them again, from the first
        that took NumPy too many instructions on, with what its C engine affords. A check should not
        be of a sample: what no block writes would not be seen."""
        for done, run in enumerate(self._in_one_process(batch)):
            if self._virtual.afford_more(batch.build, run, whole=batch.mode == "check"):
                yield from islice(self._in_one_process(batch), done, None)
                return
            yield run

    def _in_one_process(self, batch: Batch) -> Iterator[CaseRun | Failure]:
        sandbox = partial(self.sandbox, batch.build, batch.oracle_cases, baseline=batch.baseline)
        with (
            self.process(batch.mode, sandbox) as process,
            self.leased(batch.mode, alone=batch.mode != "check"),
        ):
            worker, started = process.worker, 0
            request = self.asked(batch, process)
            calls, finished, limit_s = request.calls, 0, batch.limit_s
            try:
                asked, computes = request.model_dump(mode="json"), self.device.kind == "virtual"
                worker.ask(asked, limit_s, self.stop, only_work=computes)
                for report in map(parsed, worker.reports()):
                    if isinstance(report, Started):
                        started = min(report.index, len(calls) - 1)
                        continue
                    if report.index != finished:
                        raise BadReport(f"call {report.index} where call {finished} was to come")
                    finished += 1
                    run = self._case_run(batch, calls[report.index], report)
                    failure = failure_of(report, run.oracle_case.case) or run.oddity(self.task.args)
                    try:
                        yield failure or run
                    finally:
                        shutil.rmtree(run.folder, ignore_errors=True)  # they can be large
                    if failure and not batch.apart:
                        return
                    if batch.apart:
                        limit_s = batch.limit_after_s(finished)
                        worker.allow(limit_s, self.stop)
                end = worker.finish()
            except StepTimeout:
                yield TimedOut(step=batch.mode, limit_s=limit_s)
                return
            except StepMemory:
                message = "it held more than half of this machine's memory and was killed"
                yield Crashed(case=batch.oracle_cases[started].case, message=message)
                return
            except BadReport as error:
                message = f"its process reports what no runner does: {error}"
                yield Crashed(case=batch.oracle_cases[started].case, message=message)
                return
            if finished < len(calls):
                message = f"the runner was {signal_name(end.returncode)}; {last_line(end.output)}"
                yield Crashed(case=batch.oracle_cases[started].case, message=message)

    @contextmanager
    def process(
        self, mode: Mode, sandbox: Callable[[Path], SandboxPolicy], child: str = ""
    ) -> Iterator[RunnerProcess]:
        """The process of a run: one that was prepared, or a new one. `sandbox` gets the scratch
        folder of a new one; `child` as of `prepare`."""
        process = self.pool.take(child or self._module(), mode, sandbox)
        try:
            yield process
        finally:
            process.close()

    def request(
        self,
        build: Build,
        oracle_cases: Sequence[OracleCase],
        mode: Mode,
        plans: Sequence[LaunchPlan],
        scratch: Path,
        cubin: Path | None = None,
    ) -> CudaRequest:
        """Returns the request of a run on a GPU, with folders in `scratch`; `cubin`: a copy of the
        build's."""
        batch = Batch(build, oracle_cases, mode, self.device.kind, plans=plans)
        return self._cuda_request(batch, self._calls(batch, scratch), cubin or build.cubin)

    def asked(self, batch: Batch, process: RunnerProcess) -> CudaRequest | VirtualRequest:
        """The request of a run in this process."""
        calls = self._calls(batch, process.scratch)
        if self.device.kind == "virtual":
            return self._virtual.request(
                batch.build,
                batch.oracle_cases,
                calls,
                self._process_seed(batch.mode),
                counters=batch.mode == "time",
            )
        cubin = process.put(batch.build.cubin)
        baseline = process.put(batch.baseline.cubin) if batch.baseline else None
        return self._cuda_request(batch, calls, cubin, baseline)

    def _cuda_request(
        self,
        batch: Batch,
        calls: Sequence[CallRequest],
        cubin: Path,
        baseline: Path | None = None,
    ) -> CudaRequest:
        return CudaRequest(
            task=self.task.folder,
            mode=batch.mode,
            index=self.device.index,
            cubin=cubin,
            seed=self._process_seed(batch.mode),
            calls=tuple(calls),
            baseline_cubin=baseline,
            least_blocks=self.least_blocks,
        )

    def _process_seed(self, mode: Mode) -> Seed:
        return self.seed.of("runner process", mode)

    def _calls(self, batch: Batch, scratch: Path) -> list[CallRequest]:
        seed, count = self._process_seed(batch.mode), len(batch.oracle_cases)
        draws = seed.of("pattern").random()
        pattern, first = left_there(draws.randrange(3), draws), draws.randrange(3)
        calls = []
        for place, oracle_case in enumerate(batch.oracle_cases):
            turn = batch.turns[place] if batch.turns else place
            of_turn = left_there(first + turn, seed.of("pattern", turn).random())
            calls.append(
                CallRequest(
                    case=oracle_case.case,
                    inputs=oracle_case.inputs,
                    after=batch.folder(scratch, place),
                    how=(batch.hows or ["fresh"] * count)[place],
                    pattern=of_turn if batch.mode == "check" else pattern,
                    turn=turn,
                    seed=seed.of("call", turn),
                    together=oracle_case.judged_together(self.task),
                    plan=batch.plans[place] if batch.plans else None,
                    baseline_plan=batch.baseline_plans[place] if batch.baseline_plans else None,
                )
            )
        return calls

    def _case_run(self, batch: Batch, call: CallRequest, report: CaseReport) -> CaseRun:
        seed = self.seed.of("judge", batch.mode, call.turn)
        oracle_case = batch.oracle_cases[report.index]
        return CaseRun(oracle_case, taken(call.after), report, call.pattern, seed)

    def sandbox(
        self,
        build: Build,
        oracle_cases: Sequence[OracleCase],
        scratch: Path,
        baseline: Build | None = None,
    ) -> SandboxPolicy:
        """What a runner may reach: inputs but no expected outputs, builds, a scratch folder."""
        builds = (build.folder, *((baseline.folder,) if baseline else ()))
        return self.policy((*builds, *self.inputs(oracle_cases)), scratch)

    def inputs(self, oracle_cases: Sequence[OracleCase]) -> tuple[Path, ...]:
        """Folders of what the calls read. Not file by file: of many calls the paths would be more
        than a word of a command holds (128 KiB)."""
        return tuple(dict.fromkeys(t.inputs for t in oracle_cases))

    def policy(self, read: Sequence[Path], scratch: Path) -> SandboxPolicy:
        """Returns what a runner may reach that reads these files and folders."""
        libraries = (cache_folder("virtual-gpu"),) if self.device.kind == "virtual" else ()
        return SandboxPolicy(
            read=(self.task.folder.resolve(), *libraries, *read),
            write=(scratch,),
            gpu=self.device.kind == "cuda",
            memory_bytes=VIRTUAL_MEMORY_BYTES if self.device.kind == "virtual" else None,
        )
