"""Runs a built candidate in a runner process and returns its outputs, case by case.

A candidate's host code runs in the plan recorder only (tools/plan/); the runner process gets its
device code and launch plans.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.entropy import Entropy, Seed
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.run.case_run import CaseRun, taken
from astra_chat.tools.run.early_contexts import EarlyContexts
from astra_chat.tools.run.failures import Failure, failure_of, last_line
from astra_chat.tools.run.launch_plans import LaunchPlans, Recorded, all_or_failure
from astra_chat.tools.run.oracle import OracleCase
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
from astra_chat.tools.run.requests import Batch, Call, Requests
from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.devices import gpu_uuid, virtual_device
from astra_chat.tools.system.forked import server_of
from astra_chat.tools.system.gpu_lock import lease
from astra_chat.tools.system.gpu_use import GpuClock, clock_of
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import (
    Begun,
    StepTimeout,
    Stop,
    Worker,
    child_environment,
    signal_name,
)
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import BuildFailed, Case, Crashed, Device, StepName, TimedOut
from astra_chat.tools.virtual_gpu.adapter import Engine, Estimate
from astra_vgpu.ground.cache import cache_folder

KnownCall = tuple[Path, str]
"""A build's folder, and a case as JSON."""


# Runner processes, and those under NVIDIA's tools: started before they are needed where that takes
# long, and ended with their folders.

LOG = "log"


@dataclass(frozen=True)
class RunnerProcess:
    """A runner process that waits for its request, and the folder that it may write to."""

    worker: Worker
    scratch: Path
    builds: Path | None = None
    """Where it finds what it is to load, if it started before that was built."""

    def put(self, library: Path) -> Path:
        """Where it finds this library."""
        if self.builds is None:
            return library
        return Path(shutil.copy(library, tempfile.mkdtemp(dir=self.builds)))

    def close(self) -> None:
        self.worker.__exit__()
        _delete(*filter(None, (self.scratch, self.builds)))


@dataclass(frozen=True)
class ToolProcess:
    """A tool of NVIDIA's round one of our modules, which waits for its request."""

    program: Begun
    scratch: Path
    """Holds the tool's log and what calls leave."""
    builds: Path
    """Where it finds what it is to load."""

    @classmethod
    def begin(
        cls, command: Sequence[str], module: str, sandbox: Callable[[Path, Path], SandboxPolicy]
    ) -> ToolProcess:
        """Start a tool. `command`: its full path and options. `sandbox` gets the folder of builds
        and the scratch folder. Raises MissingDependency without the tool."""
        scratch, builds = (Path(tempfile.mkdtemp(prefix="astra-tool-")) for _ in range(2))
        argv = [*command, "--log-file", str(scratch / LOG), sys.executable, "-m", module]
        try:
            begun = Begun(argv, cwd=scratch, sandbox=sandbox(builds, scratch))
        except BaseException:
            _delete(scratch, builds)
            raise
        return cls(begun, scratch, builds)

    def log(self) -> str | None:
        """Returns what the tool wrote to its log, if anything."""
        file = self.scratch / LOG
        return file.read_text(errors="replace") if file.is_file() else None

    def close(self) -> None:
        self.program.close()
        _delete(self.scratch, self.builds)


@dataclass
class ProcessPool:
    """Processes of runs to come."""

    _waiting: dict[tuple[str, Mode], list[RunnerProcess]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _tools: dict[tuple[str, ...], list[ToolProcess]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Tools that wait for their request, by command and module."""
    contexts: EarlyContexts | None = None
    """Opens the GPU in processes that wait."""

    def prepare(
        self, module: str, mode: Mode, count: int, sandbox: Callable[[Path, Path], SandboxPolicy]
    ) -> None:
        """Start processes of this module of tools/runners/ until `count` wait with their
        libraries loaded. `sandbox` gets the folder of builds and the scratch folder of each."""
        waiting = self._waiting[module, mode]
        while len(waiting) < count:
            scratch, builds = (Path(tempfile.mkdtemp(prefix="astra-run-")) for _ in range(2))
            policy = sandbox(builds, scratch)
            worker = Worker(module, sandbox=policy, server=server_of(module))
            waiting.append(RunnerProcess(worker, scratch, builds))
            if self.contexts:
                self.contexts.open(worker)

    def take(
        self, module: str, mode: Mode, sandbox: Callable[[Path], SandboxPolicy]
    ) -> RunnerProcess:
        """Returns the process that was prepared first, or a new one; `sandbox` gets the scratch
        folder of a new one. Those that were started last may not have loaded their libraries
        yet."""
        waiting = self._waiting[module, mode]
        while waiting:
            process = waiting.pop(0)
            if self.contexts is None or self.contexts.claim(process.worker):
                return process
            process.close()
        scratch = Path(tempfile.mkdtemp(prefix="astra-run-"))
        worker = Worker(module, sandbox=sandbox(scratch), server=server_of(module))
        return RunnerProcess(worker, scratch)

    def prepare_tool(
        self,
        command: Sequence[str],
        module: str,
        count: int,
        sandbox: Callable[[Path, Path], SandboxPolicy],
    ) -> None:
        """Start tools round this module until `count` wait."""
        waiting = self._tools[*command, module]
        while len(waiting) < count:
            waiting.append(ToolProcess.begin(command, module, sandbox))

    def take_tool(
        self, command: Sequence[str], module: str, sandbox: Callable[[Path, Path], SandboxPolicy]
    ) -> ToolProcess:
        """Returns the tool that was prepared first, or a new one."""
        if waiting := self._tools[*command, module]:
            return waiting.pop(0)
        return ToolProcess.begin(command, module, sandbox)

    def dismiss(self) -> None:
        """End the processes that were not used."""
        for processes in self._waiting.values():
            while processes:
                process = processes.pop()
                if self.contexts:
                    self.contexts.claim(process.worker)
                process.close()
        for tools in self._tools.values():
            while tools:
                tools.pop().close()


def _delete(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class KnownBaseline:
    """What is known of the baseline of one task on one device; keys name the build and the case."""

    estimates: dict[KnownCall, Estimate] = field(default_factory=dict)
    """Estimates of its calls on the virtual GPU: an equal call has an equal estimate."""
    workspace_bytes: dict[KnownCall, int | None] = field(default_factory=dict)
    """What these calls use of the workspaces; None: not all blocks ran."""
    host_us: dict[KnownCall, float] = field(default_factory=dict)
    """What a call of its launcher keeps the host busy."""
    right: set[str] = field(default_factory=set)
    """Hashes of its timed results that were found right."""


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
        if self.gpu and self.pool.contexts is None:
            self.pool.contexts = EarlyContexts(self.device.index, self._leased_early)

    def seeded(self, seed: Seed) -> Runner:
        """Returns this runner, with its processes and libraries, whose runs draw from `seed`."""
        return replace(self, seed=seed)

    def on_virtual_gpu(self) -> Runner:
        """Returns a runner of the same task on the virtual GPU that stands for this device."""
        device = virtual_device(self.device.spec)
        return Runner(self.task, device, self.stop, self.engine, seed=self.seed)

    def virtual_build(self, built: Build) -> Build | BuildFailed | TimedOut:
        """The build that the virtual GPU which stands for this device runs: this one, unless that
        has another architecture."""
        device = virtual_device(self.device.spec)
        if device.arch == self.device.arch:
            return built
        return build(self.task, built.source, device, self.stop)

    def prepare(self, mode: Mode, inputs: Path, count: int = 1, child: str = "") -> None:
        """Start processes of runs to come, until `count` wait with their libraries loaded; of
        `child`, where it is another program than the device's. On the virtual GPU, where a server
        forks them, it is the server that starts.

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
        elif server := server_of(self._module()):
            server.begin(child_environment(SandboxPolicy().environment()))

    def dismiss(self) -> None:
        """End the processes that were prepared and not used."""
        self.pool.dismiss()

    @property
    def _requests(self) -> Requests:
        return Requests(
            self.task,
            self.device,
            self.engine,
            self.stop,
            self._libraries,
            self._long_running,
            self.descending,
            self.least_blocks,
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

    def _leased_early(self, stop: Stop) -> AbstractContextManager[None]:
        """Hold the GPU for contexts that nobody needs yet; the wait is not reported."""
        return lease(gpu_uuid(self.device.index), f"contexts of {self.task.name}", False, stop)

    def run(
        self,
        build: Build,
        oracle_cases: Sequence[OracleCase],
        mode: Mode,
        baseline: Build | None = None,
    ) -> Iterator[CaseRun | Failure]:
        """Yields the run of one call on each case, as `run_calls`."""
        return self.run_calls(build, [Call(one) for one in oracle_cases], mode, baseline)

    def run_calls(
        self, build: Build, calls: Sequence[Call], mode: Mode, baseline: Build | None = None
    ) -> Iterator[CaseRun | Failure]:
        """Yield each call's run as `kept_runs`; its files are gone once the next is asked for."""
        for run in self.kept_runs(build, calls, mode, baseline):
            try:
                yield run
            finally:
                _remove(run)

    def kept_runs(
        self, build: Build, calls: Sequence[Call], mode: Mode, baseline: Build | None = None
    ) -> Generator[CaseRun | Failure]:
        """Yield each call's run, whose files the caller removes, or the failure that ended the
        process.

        On the virtual GPU launchers of a library of several have nothing to do with each other, so
        a failure ends its call only, which has a limit of time of its own; what ends the process
        still ends the run, as any failure on a real GPU does.
        """
        plans = self.record(build, *_asked_of(calls))
        timed_beside = baseline if self.device.kind == "cuda" else None
        cases = [call.oracle_case.case for call in calls]
        beside = all_or_failure(self.record(timed_beside, cases) if timed_beside else [])
        if not isinstance(beside, list):
            yield beside
            return
        whole = [] if any(call.entry for call in calls) else all_or_failure(plans)
        if not isinstance(whole, list):
            yield whole
            return
        planned = [
            replace(
                call,
                turn=place if call.turn is None else call.turn,
                plan=plan,
                baseline_plan=beside[place] if beside else None,
            )
            for place, (call, plan) in enumerate(zip(calls, plans, strict=True))
            if isinstance(plan, LaunchPlan)
        ]
        runs = self._runs(Batch(build, planned, mode, baseline))
        for plan in plans:
            found = next(runs, None) if isinstance(plan, LaunchPlan) else plan
            if found is None:
                return
            yield found

    def planned(
        self, build: Build, oracle_cases: Sequence[OracleCase], baseline: Build | None = None
    ) -> list[Call] | Failure:
        """Returns calls with the plans of what they launch, and of what the baseline does where it
        is given; or why the first that has no plan has none."""
        cases = [oracle_case.case for oracle_case in oracle_cases]
        plans = all_or_failure(self.record(build, cases))
        beside = all_or_failure(self.record(baseline, cases)) if baseline else [None] * len(cases)
        if not isinstance(plans, list):
            return plans
        if not isinstance(beside, list):
            return beside
        pairs = zip(oracle_cases, plans, beside, strict=True)
        return [Call(one, plan=plan, baseline_plan=other) for one, plan, other in pairs]

    def record(
        self, build: Build, cases: Sequence[Case], entries: Sequence[str] | None = None
    ) -> list[Recorded]:
        """Returns what the launcher launches on each case, or why that cannot be said; no inputs
        need be made. `entries`: the launcher of each case, of a library of several."""
        assert self._plans is not None
        return self._plans.of(build, cases, entries, self.seed.of("recorder"))

    def keep_plans(self, build: Build, plans: Sequence[LaunchPlan]) -> None:
        """Keep the plans of a build whose launcher the recorder cannot run, or need not."""
        assert self._plans is not None
        self._plans.keep(build, plans)

    def _runs(self, batch: Batch) -> Iterator[CaseRun | Failure]:
        """The calls in runner processes; on the virtual GPU all of them again, from the first that
        took NumPy too many instructions on, with what its C engine affords. A check should not be
        of a sample: what no block writes would not be seen."""
        for done, run in enumerate(self._in_processes(batch)):
            if self._requests.afford_more(batch.build, run, whole=batch.mode == "check"):
                _remove(run)
                for place, again in enumerate(self._in_processes(batch)):
                    if place < done:
                        _remove(again)
                    else:
                        yield again
                return
            yield run

    def _in_processes(self, batch: Batch) -> Iterator[CaseRun | Failure]:
        """The calls in their order, by as many processes as they are shared out to."""
        shares = self._requests.shares(batch)
        parts = [replace(batch, calls=[batch.calls[i] for i in share]) for share in shares]
        turns = sorted((place, part) for part, share in enumerate(shares) for place in share)
        with ExitStack() as ended:
            begun = [ended.enter_context(self._process_for(part)) for part in parts]
            ended.enter_context(self.leased(batch.mode, alone=batch.mode != "check"))
            asked = [self._asked(part, process) for part, process in zip(parts, begun, strict=True)]
            runs = [
                ended.enter_context(closing(self._reported(part, process, calls)))
                for part, process, calls in zip(parts, begun, asked, strict=True)
            ]
            for _, part in turns:
                found = next(runs[part], None)
                if found is None:
                    return
                yield found
                if not isinstance(found, CaseRun) and not self._requests.apart(batch):
                    return

    def _process_for(self, batch: Batch) -> AbstractContextManager[RunnerProcess]:
        sandbox = partial(self.sandbox, batch.build, batch.oracle_cases, baseline=batch.baseline)
        return self.process(batch.mode, sandbox)

    def _asked(self, batch: Batch, process: RunnerProcess) -> Sequence[CallRequest]:
        """Ask a process for these calls; returns what it was asked."""
        request = self._request(batch, process)
        asked, computes = request.model_dump(mode="json"), self.device.kind == "virtual"
        limit_s = self._requests.limit_s(batch)
        process.worker.ask(asked, limit_s, self.stop, only_work=computes)
        return request.calls

    def _reported(
        self, batch: Batch, process: RunnerProcess, calls: Sequence[CallRequest]
    ) -> Generator[CaseRun | Failure]:
        """What a process reports of its calls."""
        worker, requests = process.worker, self._requests
        started, finished, limit_s = 0, 0, requests.limit_s(batch)
        apart = requests.apart(batch)
        try:
            for report in map(parsed, worker.reports()):
                if isinstance(report, Started):
                    started = min(report.index, len(calls) - 1)
                    continue
                if report.index != finished:
                    raise BadReport(f"call {report.index} where call {finished} was expected")
                finished += 1
                run = self._case_run(batch, calls[report.index], report)
                failure = failure_of(report, run.oracle_case.case) or run.oddity(self.task.args)
                if failure:
                    run.remove()
                yield failure or run
                if apart:
                    limit_s = requests.limit_s(batch, finished)
                    worker.allow(limit_s, self.stop)
            end = worker.finish()
        except StepTimeout:
            yield TimedOut(step=batch.mode, limit_s=limit_s)
            return
        except StepMemory:
            message = "it used more than half of this machine's memory and was killed"
            yield Crashed(case=batch.calls[started].oracle_case.case, message=message)
            return
        except BadReport as error:
            message = f"its process sent a report that the runner did not write: {error}"
            yield Crashed(case=batch.calls[started].oracle_case.case, message=message)
            return
        if finished < len(calls):
            message = f"the runner was {signal_name(end.returncode)}; {last_line(end.output)}"
            yield Crashed(case=batch.calls[started].oracle_case.case, message=message)

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

    def _case_run(self, batch: Batch, call: CallRequest, report: CaseReport) -> CaseRun:
        seed = self.seed.of("judge", batch.mode, call.turn)
        oracle_case = batch.calls[report.index].oracle_case.read_again()
        return CaseRun(oracle_case, taken(call.after), report, call.pattern, seed)

    def _request(self, batch: Batch, process: RunnerProcess) -> CudaRequest | VirtualRequest:
        if self.device.kind == "cuda":
            return self.cuda_request(batch, process)
        seed = self._process_seed(batch.mode)
        return self._requests.virtual(batch, seed, process.scratch)

    def cuda_request(self, batch: Batch, process: RunnerProcess) -> CudaRequest:
        """Returns the request of these calls on a GPU, for a process that gets copies of the
        builds."""
        cubin = process.put(batch.build.cubin)
        baseline = process.put(batch.baseline.cubin) if batch.baseline else None
        return self.request(batch, process.scratch, cubin, baseline)

    def request(
        self, batch: Batch, scratch: Path, cubin: Path, baseline: Path | None = None
    ) -> CudaRequest:
        """Returns the request of these calls on a GPU, with folders in `scratch`, as
        Requests.cuda."""
        seed = self._process_seed(batch.mode)
        return self._requests.cuda(batch, seed, scratch, cubin, baseline)

    def _process_seed(self, mode: Mode) -> Seed:
        return self.seed.of("runner process", mode)

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


def _asked_of(calls: Sequence[Call]) -> tuple[list[Case], list[str] | None]:
    """Returns the cases of calls, and their launchers where any is not the task's own."""
    entries = [call.entry for call in calls]
    return [call.oracle_case.case for call in calls], entries if any(entries) else None


def _remove(run: CaseRun | Failure) -> None:
    if isinstance(run, CaseRun):
        run.remove()
