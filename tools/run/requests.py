"""What a runner process is asked: the calls of one run, on a real or the virtual GPU.

Compiling for the virtual GPU happens here, in processes of their own: the runner process starts
none.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from astra_chat.tools.build.disassembly import machine_code_of
from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.build.virtual_gpu_kernels import compile_walled
from astra_chat.tools.entropy import Seed
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import (
    CallRequest,
    CudaRequest,
    Mode,
    VirtualRequest,
    WatchedBytes,
)
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Device, DeviceKind, How, Unsafe
from astra_chat.tools.virtual_gpu.adapter import NOT_COMPILED, Engine, kernel_of

RUN_TIMEOUT_S: dict[Mode, float] = {"check": 120.0, "time": 300.0, "profile": 120.0}
PATIENCE: dict[DeviceKind, float] = {"cuda": 1.0, "virtual": 5.0}
"""Factors of the time limits: 131,072 rows with a block of 1,024 threads each take the virtual GPU
minutes, and it ends by itself what never ends."""
CALL_TIMEOUT_S, SHORT_CALL_TIMEOUT_S = 15.0, 5.0
"""Time limits, in s, of a call of one launcher of several, and of a short one after the first of
its process."""
SHORT_BYTES = 2**17
"""Least bytes of a short call: it takes the virtual GPU a fraction of a second."""
C_ENGINE_BYTES = 16 * 2**20
"""A case with an argument of so many bytes is worth compiling its kernels for the virtual GPU."""
C_ENGINE_THREADS = 2**20
"""Calls of a process in which a kernel has so many threads are worth compiling it for the virtual
GPU: NumPy takes longer for them than the compiler, and of one such call runs a sample of the
blocks only. Threads count in whole warps, as NumPy runs them."""
SMALL_LAUNCH_THREADS = 2**14
"""The C engine does not take over a smaller launch, so it does not count."""
WARP_THREADS = 32
SHARED_CALLS, TOGETHER = 48, 8
"""Calls of a check from which on two processes share them; calls that follow one another in one."""
SHARED_BYTES = 2**24
"""Larger calls are all made by the first process, so that it alone may need much memory."""
TOO_LONG = "timeout:"
"""How a finding begins whose kernel issued more instructions than an engine affords."""


@dataclass(frozen=True)
class Call:
    """One call of a launcher to make: a case, into which buffers and how."""

    oracle_case: OracleCase
    how: How = "fresh"
    hidden: bool = False
    """Its case is drawn by the judge."""
    turn: int | None = None
    """Number on which the draws for this call depend; None: its place among the calls."""
    entry: str = ""
    """The launcher of a library of several; "" for the task's own."""
    plan: LaunchPlan | None = None
    """What it launches, once that is recorded."""
    baseline_plan: LaunchPlan | None = None
    """What the baseline launches, which is timed beside it."""
    watched: WatchedBytes | None = None
    """Bytes of which the report says what stored to them last."""


@dataclass(frozen=True)
class Batch:
    """The calls of one process, of which build, and how."""

    build: Build
    calls: Sequence[Call]
    mode: Mode
    baseline: Build | None = None
    compared_there: bool = False
    """Results are compared in the process: no call hands bytes back."""

    @property
    def oracle_cases(self) -> list[OracleCase]:
        return [call.oracle_case for call in self.calls]

    def folder(self, scratch: Path, place: int) -> Path:
        """Where a call's bytes go; made, unless none come."""
        folder = scratch / str(place)
        if not self.compared_there:
            folder.mkdir()
        return folder


@dataclass
class Requests:
    """Makes the requests for one task on one device."""

    task: Task
    device: Device
    engine: Engine
    stop: Stop
    libraries: dict[Path, dict[str, Path | None]]
    """Libraries of the C engine, by PTX file and kernel; None for what cannot be compiled."""
    long_running: set[Path]
    """PTX files whose kernels NumPy gave up."""
    descending: bool = False
    least_blocks: int | None = None

    def apart(self, batch: Batch) -> bool:
        """Whether a failure ends its call only: launchers of several on the virtual GPU, where they
        have nothing to do with each other."""
        return self.device.kind == "virtual" and any(call.entry for call in batch.calls)

    def limit_s(self, batch: Batch, done: int = 0) -> float:
        """Returns the time limit, in s, of the process, or where calls are apart of the next."""
        if not self.apart(batch):
            return PATIENCE[self.device.kind] * RUN_TIMEOUT_S[batch.mode]
        short = 0 < done < len(batch.calls) and self._is_short(batch.calls[done])
        return SHORT_CALL_TIMEOUT_S if short else CALL_TIMEOUT_S

    def shares(self, batch: Batch) -> list[list[int]]:
        """Returns which calls, by their places, each process makes: on the virtual GPU two share
        many calls of a check, on any machine, so that a seed draws the same everywhere. A call that
        uses memory of the one before it follows that in its process."""
        calls = batch.calls
        if self.device.kind == "cuda" or batch.mode != "check" or len(calls) < SHARED_CALLS:
            return [list(range(len(calls)))]
        shares: tuple[list[int], list[int]] = ([], [])
        fresh = which = 0
        for place, call in enumerate(calls):
            if call.how == "fresh":
                small = self.task.least_bytes(call.oracle_case.case) <= SHARED_BYTES
                which = fresh // TOGETHER % 2 if small else 0
                fresh += 1
            shares[which].append(place)
        return list(shares)

    def _is_short(self, call: Call) -> bool:
        return self.task.least_bytes(call.oracle_case.case) <= SHORT_BYTES

    def afford_more(self, build: Build, run: CaseRun | Failure, *, whole: bool) -> bool:
        """Whether a call failed for its many instructions, or, where it should run `whole`, only a
        sample of its blocks ran, and the C engine, which affords more instructions, runs this build
        from now on and did not before."""
        long = isinstance(run, Unsafe) and run.what.startswith(TOO_LONG)
        part = whole and isinstance(run, CaseRun) and run.report.sampled
        lacks = isinstance(run, CaseRun) and NOT_COMPILED in run.report.on_numpy.values()
        if (
            self.engine != "auto"
            or build.ptx in self.long_running
            or not (long or (part and lacks))
        ):
            return False
        self.long_running.add(build.ptx)
        return True

    def virtual(self, batch: Batch, seed: Seed, scratch: Path) -> VirtualRequest:
        """Returns the request to run these calls on the virtual GPU."""
        build, calls = batch.build, self._calls(batch, seed, scratch)
        estimated = batch.mode == "time"
        if estimated:
            machine_code_of(build, self.stop)  # an estimate reads it beside the PTX
        engine: Engine = "c" if build.ptx in self.long_running else self.engine
        return VirtualRequest(
            task=self.task.folder,
            ptx=build.ptx,
            spec=self.device.spec,
            engine=engine,
            descending=self.descending,
            counters=estimated,
            compiled=self._compiled(engine, batch, calls),
            resources={r.kernel: (r.registers, r.static_shared_bytes) for r in build.resources},
            seed=seed,
            calls=tuple(calls),
        )

    def cuda(
        self, batch: Batch, seed: Seed, scratch: Path, cubin: Path, baseline: Path | None = None
    ) -> CudaRequest:
        """Returns the request to run these calls on a GPU; `cubin`, `baseline`: copies of those of
        the builds, in reach of the process."""
        return CudaRequest(
            task=self.task.folder,
            mode=batch.mode,
            index=self.device.index,
            cubin=cubin,
            seed=seed,
            calls=tuple(self._calls(batch, seed, scratch)),
            baseline_cubin=baseline,
            least_blocks=self.least_blocks,
        )

    def _calls(self, batch: Batch, seed: Seed, scratch: Path) -> list[CallRequest]:
        draws = seed.of("pattern").random()
        pattern, first = left_there(draws.randrange(3), draws), draws.randrange(3)
        calls = []
        for place, call in enumerate(batch.calls):
            turn = place if call.turn is None else call.turn
            of_turn = left_there(first + turn, seed.of("pattern", turn).random())
            calls.append(
                CallRequest(
                    case=call.oracle_case.case,
                    inputs=call.oracle_case.inputs,
                    after=batch.folder(scratch, place),
                    how=call.how,
                    pattern=of_turn if batch.mode == "check" else pattern,
                    turn=turn,
                    seed=seed.of("call", turn),
                    together=call.oracle_case.judged_together(self.task),
                    plan=call.plan,
                    baseline_plan=call.baseline_plan,
                    watched=call.watched,
                )
            )
        return calls

    def _compiled(
        self, engine: Engine, batch: Batch, calls: Sequence[CallRequest]
    ) -> dict[str, Path]:
        """Libraries of the virtual GPU's C engine: the runner may not start a compiler itself."""
        everything = engine == "c"
        threads = threads_of(calls)
        wanted = {
            node.kernel
            for call in calls
            for node in (call.plan.kernels if call.plan else ())
            if everything or self._is_large(call) or threads[node.kernel] >= C_ENGINE_THREADS
        }
        if engine == "numpy" or not wanted:
            return {}
        known = self.libraries.setdefault(batch.build.ptx, {})
        if missing := wanted - {kernel_of(name) for name in known}:
            known |= dict.fromkeys(missing)
            known |= compile_walled(batch.build.ptx, self.engine, self.stop, missing)
        return {name: library for name, library in known.items() if library is not None}

    def _is_large(self, call: CallRequest) -> bool:
        return max(arg.bytes_of(call.case) for arg in self.task.args) >= C_ENGINE_BYTES


def threads_of(calls: Sequence[CallRequest]) -> Counter[str]:
    """The threads of each kernel's large launches in all calls, in whole warps."""
    found = Counter[str]()
    for call in calls:
        for node in call.plan.kernels if call.plan else ():
            warps = prod(node.grid) * -(-prod(node.block) // WARP_THREADS)
            if warps * WARP_THREADS >= SMALL_LAUNCH_THREADS:
                found[node.kernel] += warps * WARP_THREADS
    return found


def left_there(turn: int, draws: random.Random) -> int:
    """What outputs, guards and paddings hold before a call: NaNs, every third time numbers.

    A kernel that takes a NaN as a sign that an element is not yet written would be correct in every
    call of ours and wrong in a server, where old results lie.
    """
    return nan_pattern(draws) if turn % 3 else old_results(draws)


def old_results(draws: random.Random) -> int:
    """A random 16-bit pattern that is 2 to 16 as half, and at least 2 and finite as bfloat16 and,
    repeated, as float."""
    return draws.choice((0, 0x8000)) | 0x4000 + draws.randrange(0xC00)


def nan_pattern(draws: random.Random) -> int:
    """A random 16-bit pattern that is a NaN as half and bfloat16, and repeated as float."""
    return draws.choice((0, 0x8000)) | 0x7F80 | draws.randrange(1, 0x80)
