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
from astra_chat.tools.virtual_gpu.types import Engine

C_ENGINE_BYTES = 16 * 2**20
"""A case with an argument of so many bytes is worth compiling its kernels for the virtual GPU."""
C_ENGINE_THREADS = 2**20
"""And so is a call that launches so many threads: NumPy would run a sample of the blocks only."""

TOO_LONG = "timeout:"
"""How a finding begins whose kernel issued more instructions than an engine affords."""


@dataclass
class VirtualRequests:
    """Makes the requests for one task on one virtual GPU."""

    task: Task
    device: Device
    engine: Engine
    stop: Stop
    libraries: dict[Path, dict[str, Path]]
    """Of the C engine, by PTX file."""
    long_running: set[Path]
    """PTX files whose kernels NumPy gave up."""
    descending: bool = False

    def afford_more(self, build: Build, run: CaseRun | Failure, *, whole: bool) -> bool:
        """Whether a call failed for its many instructions, or, where it should run `whole`, only a
        sample of its blocks ran, and the C engine, which affords more instructions, runs this build
        from now on and did not before."""
        long = isinstance(run, Unsafe) and run.what.startswith(TOO_LONG)
        part = whole and isinstance(run, CaseRun) and run.report.sampled
        compiled = self.libraries.get(build.ptx)
        if self.engine != "auto" or build.ptx in self.long_running:
            return False
        if not long and (not part or compiled):
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
        """`counters`: whether a time is estimated."""
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
        sizes = (arg.bytes_of(t.case) for t in oracle_cases for arg in self.task.args)
        worth = max(sizes) >= C_ENGINE_BYTES or max(map(_threads, calls)) >= C_ENGINE_THREADS
        if engine == "numpy" or (engine == "auto" and not worth):
            return {}
        if build.ptx not in self.libraries:
            self.libraries[build.ptx] = compile_walled(build.ptx, self.engine, self.stop)
        return self.libraries[build.ptx]


def _threads(call: CallRequest) -> int:
    nodes = call.plan.kernels if call.plan else ()
    return sum(prod(node.grid) * prod(node.block) for node in nodes)
