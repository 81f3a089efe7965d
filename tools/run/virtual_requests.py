"""Requests to the runner process of the virtual GPU: launch plans and compiled kernels.

Recording and compiling happen here, in processes of their own: the runner process starts none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.build.virtual_gpu_kernels import compile_walled
from astra_chat.tools.entropy import Seed
from astra_chat.tools.gpu_specs import spec
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.plan.record import record
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CallRequest, VirtualRequest
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, Crashed, Device
from astra_chat.tools.virtual_gpu.types import Engine

C_ENGINE_BYTES = 16 * 2**20
"""A case with an argument of so many bytes is worth compiling its kernels for the virtual GPU."""
MOST_CRASHES = 3
"""Cases on which a launcher crashes before it is tried on no more."""
Recorded = LaunchPlan | Failure


@dataclass
class VirtualRequests:
    """Makes the requests for one task on one virtual GPU."""

    task: Task
    device: Device
    engine: Engine
    stop: Stop
    libraries: dict[Path, dict[str, Path]]
    """Of the C engine, by PTX file."""

    def plans(
        self, build: Build, cases: Sequence[Case], entries: Sequence[str] | None, seed: Seed
    ) -> list[Recorded]:
        """What each call launches, or why that cannot be said. `entries`: the launcher of each call
        where it is not the task's. Raises what record.record raises."""
        called = entries or [self.task.entry] * len(cases)
        found: dict[int, Recorded] = {}
        for entry in dict.fromkeys(called):
            which = [i for i, name in enumerate(called) if name == entry]
            task = self.task.model_copy(update={"entry": entry})
            recorded = self._recorded(build, task, [cases[i] for i in which], seed.of(entry))
            found |= zip(which, recorded, strict=True)
        return [found[i] for i in range(len(cases))]

    def _recorded(
        self, build: Build, task: Task, cases: Sequence[Case], seed: Seed
    ) -> list[Recorded]:
        """Of one launcher, whose cases may repeat. One that is refused on a case has no plan for
        any; one that crashes has none for that case."""
        left = {_key(case): case for case in cases}
        found: dict[str, Recorded] = {}
        gpu, crashes = spec(self.device.spec), 0
        while left:
            draws = seed.of(crashes).random()
            result = record(build, task, list(left.values()), gpu, draws, stop=self.stop)
            if isinstance(result, tuple):
                found |= zip(left, result, strict=True)
                break
            crashes += 1
            if not isinstance(result, Crashed) or crashes == MOST_CRASHES:
                found |= dict.fromkeys(left, result)
                break
            found[_key(result.case)] = result
            del left[_key(result.case)]
        return [found[_key(case)] for case in cases]

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


def _key(case: Case) -> str:
    return case.model_dump_json()
