"""Requests to the runner process of the virtual GPU, with compiled kernels.

Compiling happens here, in processes of their own: the runner process starts none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.build.virtual_gpu_kernels import compile_walled
from astra_chat.tools.entropy import Seed
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CallRequest, VirtualRequest
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Device, Unsafe
from astra_chat.tools.virtual_gpu.adapter import NOT_COMPILED, Engine, kernel_of

C_ENGINE_BYTES = 16 * 2**20
"""A case with an argument of so many bytes is worth compiling its kernels for the virtual GPU."""
C_ENGINE_THREADS = 2**20
"""A call that launches so many threads is worth compiling its kernels for the virtual GPU: NumPy
would run a sample of the blocks only."""

TOO_LONG = "timeout:"
"""How a finding begins whose kernel issued more instructions than an engine affords."""


@dataclass
class VirtualRequests:
    """Makes the requests for one task on one virtual GPU."""

    task: Task
    device: Device
    engine: Engine
    stop: Stop
    libraries: dict[Path, dict[str, Path | None]]
    """Libraries of the C engine, by PTX file and kernel; None for what cannot be compiled."""
    long_running: set[Path]
    """PTX files whose kernels NumPy gave up."""
    descending: bool = False

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

    def request(
        self,
        build: Build,
        oracle_cases: Sequence[OracleCase],
        calls: Sequence[CallRequest],
        seed: Seed,
        *,
        counters: bool,
    ) -> VirtualRequest:
        """Returns the request to run these calls. `counters`: whether a time is estimated."""
        engine: Engine = "c" if build.ptx in self.long_running else self.engine
        return VirtualRequest(
            task=self.task.folder,
            ptx=build.ptx,
            spec=self.device.spec,
            engine=engine,
            descending=self.descending,
            counters=counters,
            compiled=self._compiled(engine, build, oracle_cases, calls),
            resources={r.kernel: (r.registers, r.static_shared_bytes) for r in build.resources},
            seed=seed,
            calls=tuple(calls),
        )

    def _compiled(
        self,
        engine: Engine,
        build: Build,
        oracle_cases: Sequence[OracleCase],
        calls: Sequence[CallRequest],
    ) -> dict[str, Path]:
        """Libraries of the virtual GPU's C engine: the runner may not start a compiler itself."""
        everything = engine == "c"
        wanted = {
            node.kernel
            for truth, call in zip(oracle_cases, calls, strict=True)
            if everything or self._worth_compiling(truth, call)
            for node in (call.plan.kernels if call.plan else ())
        }
        if engine == "numpy" or not wanted:
            return {}
        known = self.libraries.setdefault(build.ptx, {})
        if missing := wanted - {kernel_of(name) for name in known}:
            known |= dict.fromkeys(missing)
            known |= compile_walled(build.ptx, self.engine, self.stop, missing)
        return {name: library for name, library in known.items() if library is not None}

    def _worth_compiling(self, truth: OracleCase, call: CallRequest) -> bool:
        sizes = (arg.bytes_of(truth.case) for arg in self.task.args)
        return max(sizes) >= C_ENGINE_BYTES or _threads(call) >= C_ENGINE_THREADS


def _threads(call: CallRequest) -> int:
    nodes = call.plan.kernels if call.plan else ()
    return sum(prod(node.grid) * prod(node.block) for node in nodes)
