"""Requests to the runner process of the virtual GPU, with compiled kernels.

Compiling happens here, in processes of their own: the runner process starts none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.build.virtual_gpu_kernels import compile_walled
from astra_chat.tools.entropy import Seed
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CallRequest, VirtualRequest
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Device
from astra_chat.tools.virtual_gpu.types import Engine

C_ENGINE_BYTES = 16 * 2**20
"""A case with an argument of so many bytes is worth compiling its kernels for the virtual GPU."""


@dataclass
class VirtualRequests:
    """Makes the requests for one task on one virtual GPU."""

    task: Task
    device: Device
    engine: Engine
    stop: Stop
    libraries: dict[Path, dict[str, Path]]
    """Of the C engine, by PTX file."""

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
        return VirtualRequest(
            task=self.task.folder,
            ptx=build.ptx,
            spec=self.device.spec,
            engine=self.engine,
            counters=counters,
            compiled=self._compiled(build, oracle_cases),
            resources={r.kernel: (r.registers, r.static_shared_bytes) for r in build.resources},
            seed=seed,
            calls=tuple(calls),
        )

    def _compiled(self, build: Build, oracle_cases: Sequence[OracleCase]) -> dict[str, Path]:
        """Libraries of the virtual GPU's C engine: the runner may not start a compiler itself."""
        sizes = (arg.bytes_of(t.case) for t in oracle_cases for arg in self.task.args)
        wanted = self.engine == "c" or (self.engine == "auto" and max(sizes) >= C_ENGINE_BYTES)
        if not wanted:
            return {}
        if build.ptx not in self.libraries:
            self.libraries[build.ptx] = compile_walled(build.ptx, self.engine, self.stop)
        return self.libraries[build.ptx]
