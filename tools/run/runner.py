"""Runs a built candidate in a runner process and returns its outputs, case by case."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.build.virtual_gpu_kernels import compile_walled
from astra_chat.tools.entropy import NO_SEED, Entropy, Seed
from astra_chat.tools.run.buffer_layout import Bytes, Mask, gathered
from astra_chat.tools.run.failures import Failure, failure_of, last_line
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.output_files import odd_file, taken
from astra_chat.tools.run.poison import left_there
from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.cache import cache_folder
from astra_chat.tools.system.devices import gpu_uuid
from astra_chat.tools.system.gpu_lock import lease
from astra_chat.tools.system.subprocesses import StepMemory, StepTimeout, Stop, Worker, signal_name
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import Crashed, Device, How, StepName, TimedOut
from astra_chat.tools.virtual_gpu.types import Engine

Mode = Literal["check", "time", "profile"]
RUN_TIMEOUT_S: dict[Mode, float] = {"check": 120.0, "time": 300.0, "profile": 120.0}
CALL_TIMEOUT_S = 15.0
"""Of a call of one launcher of several."""
VIRTUAL_MEMORY_BYTES = 16 * 2**30
C_ENGINE_BYTES = 16 * 2**20
"""A case with an argument of so many bytes is worth compiling its kernels for the virtual GPU."""


@dataclass(frozen=True)
class CaseRun:
    """outputs of a call: files with the bytes of every argument, and the runner's report."""

    oracle_case: OracleCase
    folder: Path
    report: dict[str, Any]
    pattern: int
    """The 16 bits that outputs held before the call, over and over."""
    seed: Seed = NO_SEED
    """For what the judge draws of it; the runner process does not know it."""

    @property
    def copies(self) -> int:
        """How many buffer sets were handed back: several where timed launches are verified."""
        return int(self.report.get("verified_sets", 1))

    def after(self, arg: Arg, copy: int = 0) -> tuple[Bytes, Bytes]:
        """An argument's elements after the call, and all that lies round and between its rows."""
        path = self.folder / f"{arg.name}.after"
        size = path.stat().st_size // self.copies
        raw = np.fromfile(path, dtype=np.uint8, count=size, offset=copy * size)
        guard = int(self.report.get("guard_bytes", 0))
        end = len(raw) - guard
        content, between = gathered(arg, self.oracle_case.case, raw[guard:end])
        return content, np.concatenate([raw[:guard], between, raw[end:]])

    def oddity(self, args: Sequence[Arg]) -> Crashed | None:
        """What stands in the place of the results, if these are not what a runner writes."""
        guard = int(self.report.get("guard_bytes", 0))
        odd = odd_file(self.folder, args, self.oracle_case.case, self.copies, guard)
        what = f"{odd}, where its results belong, is not what the runner writes"
        return Crashed(case=self.oracle_case.case, message=what) if odd else None

    def repeats_the_first(self, args: Sequence[Arg], copy: int) -> bool:
        """Whether all bytes of this copy, guards included, are those of the first."""
        for arg in args:
            path = self.folder / f"{arg.name}.after"
            size = path.stat().st_size // self.copies
            first, other = (
                np.fromfile(path, dtype=np.uint8, count=size, offset=index * size)
                for index in (0, copy)
            )
            if not np.array_equal(first, other):
                return False
        return True

    def coverage(self, arg: Arg) -> Mask | None:
        """Which bytes of the elements the sampled blocks wrote; None where all blocks ran."""
        path = self.folder / f"{arg.name}.written"
        if not path.is_file():
            return None
        written: Mask = np.fromfile(path, dtype=np.bool_)
        return gathered(arg, self.oracle_case.case, written)[0]


@dataclass(frozen=True)
class _Process:
    """A runner process that waits for its request, and the folder that it may write to."""

    worker: Worker
    scratch: Path
    builds: Path | None = None
    """Where it finds what it is to load, if it started before that was built."""

    def put(self, library: str) -> str:
        """Where it finds this library."""
        if self.builds is None:
            return library
        return shutil.copy(library, tempfile.mkdtemp(dir=self.builds))

    def close(self) -> None:
        self.worker.__exit__()
        for folder in filter(None, (self.scratch, self.builds)):
            shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Runner:
    """Runs candidates of one task on one device."""

    task: Task
    device: Device
    stop: Stop = field(default_factory=Stop)
    engine: Engine = "auto"
    """Of the virtual GPU."""
    least_blocks: int | None = None
    """Of timing on a GPU, for measurements of the judge itself; None: as few as suffice."""
    on_wait: Callable[[StepName, str], None] = lambda *_: None
    """Called with a step and who holds the GPU, while that step waits for it."""
    seed: Seed = field(default_factory=lambda: Entropy().cases)
    """All that its runs draw, in the runner process too, derives from this."""
    estimates_us: dict[tuple[Path, str], float] = field(default_factory=dict)
    """Of the baseline's calls on the virtual GPU, by build and case: the same is the same again."""
    _early: dict[Mode, list[_Process]] = field(default_factory=lambda: defaultdict(list))
    _libraries: dict[Path, dict[str, Path]] = field(default_factory=dict)
    """Of the C engine, by PTX file."""

    def seeded(self, seed: Seed) -> Runner:
        """The same runner, with the same processes and libraries, whose runs draw from `seed`."""
        return replace(self, seed=seed)

    def prepare(self, mode: Mode, inputs: Path, count: int = 1) -> None:
        """Start processes of runs to come, until `count` wait: they load their libraries in the
        meantime.

        They touch no GPU and no candidate before they are asked. `inputs` is the folder in which
        the runs' inputs will lie, and no expected outputs.
        """
        while self.device.kind == "cuda" and len(self._early[mode]) < count:
            scratch, builds = (Path(tempfile.mkdtemp(prefix="astra-run-")) for _ in range(2))
            sandbox = self._sandbox((builds, inputs), scratch)
            self._early[mode].append(_Process(self._worker(sandbox), scratch, builds))

    def dismiss(self) -> None:
        """End the processes that were prepared and not used."""
        for waiting in self._early.values():
            while waiting:
                waiting.pop().close()

    @contextmanager
    def leased(self, step: StepName, *, alone: bool) -> Iterator[None]:
        """Hold the real GPU: alone for a measurement, shared for a check (system/gpu_lock.py)."""
        if self.device.kind == "virtual":
            yield
            return
        work = f"{step} of {self.task.name}"
        with lease(
            gpu_uuid(self.device.index), work, alone, self.stop,
            lambda words: self.on_wait(step, words),
        ):  # fmt: skip
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

        `entries`, on the virtual GPU: which of the library's launchers each case calls. They have
        nothing to do with each other, so a failure ends its call only, which has a limit of time of
        its own; what ends the process still ends the run.
        """
        with (
            self._process(build, oracle_cases, mode, baseline) as process,
            self.leased(mode, alone=mode != "check"),
        ):
            worker = process.worker
            request, folders = self._asked(
                build, oracle_cases, mode, baseline, hows, process.scratch, turns
            )
            for name in {"library", "baseline"} & request.keys():
                request[name] = process.put(request[name])
            limit_s = CALL_TIMEOUT_S if entries else RUN_TIMEOUT_S[mode]
            for call, entry in zip(request["calls"], entries or (), strict=False):
                call["entry"] = entry
            started, finished = 0, 0
            try:
                worker.ask(request, limit_s, self.stop)
                for report in worker.reports():
                    if report["kind"] == "start":
                        started = report["index"]
                        continue
                    index = report["index"]
                    left = taken(folders[index])
                    run = self._case_run(
                        mode, request["calls"][index], oracle_cases[index], left, report
                    )
                    failure = failure_of(report, oracle_cases[index].case) or run.oddity(
                        self.task.args
                    )
                    try:
                        yield failure or run
                    finally:
                        shutil.rmtree(left, ignore_errors=True)  # they can be large
                    finished += 1
                    if failure and not entries:
                        return
                    if entries:
                        worker.allow(limit_s, self.stop)
                end = worker.finish()
            except StepTimeout:
                yield TimedOut(step=mode, limit_s=limit_s)
                return
            except StepMemory:
                message = "it held more than half of this machine's memory and was killed"
                yield Crashed(case=oracle_cases[started].case, message=message)
                return
            if finished < len(oracle_cases):
                message = f"the runner was {signal_name(end.returncode)}; {last_line(end.output)}"
                yield Crashed(case=oracle_cases[started].case, message=message)

    @contextmanager
    def _process(
        self, build: Build, oracle_cases: Sequence[OracleCase], mode: Mode, baseline: Build | None
    ) -> Iterator[_Process]:
        """The runner process of a run: one that was prepared, or a new one."""
        if self._early[mode]:
            process = self._early[mode].pop()
        else:
            scratch = tempfile.mkdtemp(prefix="astra-run-")
            sandbox = self.sandbox(build, oracle_cases, [Path(scratch) / "0"], baseline)
            process = _Process(self._worker(sandbox), Path(scratch))
        try:
            yield process
        finally:
            process.close()

    def _worker(self, sandbox: SandboxPolicy) -> Worker:
        return Worker(f"astra_chat.tools.children.{self.device.kind}", sandbox=sandbox)

    @contextmanager
    def request(
        self, build: Build, oracle_cases: Sequence[OracleCase], mode: Mode
    ) -> Iterator[tuple[dict[str, Any], list[Path]]]:
        """The request of a run, and a scratch folder for each case's results."""
        with tempfile.TemporaryDirectory(prefix="astra-run-") as scratch:
            yield self._asked(build, oracle_cases, mode, None, None, Path(scratch))

    def _asked(
        self,
        build: Build,
        oracle_cases: Sequence[OracleCase],
        mode: Mode,
        baseline: Build | None,
        hows: Sequence[How] | None,
        scratch: Path,
        turns: Sequence[int] | None = None,
    ) -> tuple[dict[str, Any], list[Path]]:
        folders = [scratch / str(i) for i in range(len(oracle_cases))]
        for folder in folders:
            folder.mkdir()
        seed = self.seed.of("runner process", mode)
        draws = seed.of("pattern").random()
        pattern, first = left_there(draws.randrange(3), draws), draws.randrange(3)
        request: dict[str, Any] = {
            "task": str(self.task.folder),
            "mode": mode,
            "library": str(build.library),
            "index": self.device.index,
            "pattern": pattern,
            "seed": seed.text,
            "calls": [
                {
                    "case": t.case.model_dump_json(),
                    "inputs": str(t.inputs),
                    "after": str(folder),
                    "how": how,
                    "turn": turn,
                    "pattern": (
                        left_there(first + turn, seed.of("pattern", turn).random())
                        if mode == "check"
                        else pattern
                    ),
                    "seed": seed.of("call", turn).text,
                }
                for t, folder, how, turn in zip(
                    oracle_cases,
                    folders,
                    hows or ["fresh"] * len(oracle_cases),
                    turns or range(len(oracle_cases)),
                    strict=True,
                )
            ],
        }
        if baseline:
            request["baseline"] = str(baseline.library)
            request["least_blocks"] = self.least_blocks
            request["spaced"] = build.sets_launch_attributes or baseline.sets_launch_attributes
        if self.device.kind == "virtual":
            request |= {
                "ptx": str(build.ptx),
                "spec": self.device.spec,
                "counters": mode == "time",
                "engine": self.engine,
                "compiled": self._compiled(build, oracle_cases),
                "resources": {
                    r.kernel: (r.registers, r.static_shared_bytes) for r in build.resources
                },
            }
        return request, folders

    def _case_run(
        self,
        mode: Mode,
        call: dict[str, Any],
        oracle_case: OracleCase,
        left: Path,
        report: dict[str, Any],
    ) -> CaseRun:
        seed = self.seed.of("judge", mode, call["turn"])
        return CaseRun(oracle_case, left, report, call["pattern"], seed)

    def _compiled(self, build: Build, oracle_cases: Sequence[OracleCase]) -> dict[str, str]:
        """Libraries of the virtual GPU's C engine: the runner may not start a compiler itself."""
        sizes = (arg.bytes_of(t.case) for t in oracle_cases for arg in self.task.args)
        wanted = self.engine == "c" or (self.engine == "auto" and max(sizes) >= C_ENGINE_BYTES)
        if not wanted:
            return {}
        if build.ptx not in self._libraries:
            self._libraries[build.ptx] = compile_walled(build.ptx, self.engine, self.stop)
        return {kernel: str(path) for kernel, path in self._libraries[build.ptx].items()}

    def sandbox(
        self,
        build: Build,
        oracle_cases: Sequence[OracleCase],
        folders: Sequence[Path],
        baseline: Build | None = None,
    ) -> SandboxPolicy:
        """What a runner may reach: inputs but no expected outputs, builds, a scratch folder."""
        inputs = tuple(
            t.input_path(arg) for t in oracle_cases for arg in self.task.args if arg.read
        )
        builds = (build.folder, *((baseline.folder,) if baseline else ()))
        return self._sandbox((*builds, *inputs), folders[0].parent)

    def _sandbox(self, read: Sequence[Path], scratch: Path) -> SandboxPolicy:
        libraries = (cache_folder("virtual-gpu"),) if self.device.kind == "virtual" else ()
        return SandboxPolicy(
            read=(self.task.folder.resolve(), *libraries, *read),
            write=(scratch,),
            gpu=self.device.kind == "cuda",
            memory_bytes=VIRTUAL_MEMORY_BYTES if self.device.kind == "virtual" else None,
        )
