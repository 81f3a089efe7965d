"""A program's virtual GPU, attached to the calls of this process; what happens is told as rows."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from astra_vgpu.gpu import VirtualGpu
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.memory.page_guard import GuardedMemory
from astra_vgpu.memory.uninitialized_reads import warnings_of
from astra_vgpu.model.estimate import Estimate
from astra_vgpu.programs.findings import place_of
from astra_vgpu.programs.program_host import ProgramHost
from astra_vgpu.types import Engine, LaunchReport


class Recording:
    """`say` is called for each launch, fault, refusal and warning when it happens."""

    def __init__(
        self,
        runtime: ctypes.CDLL,
        say: Callable[[Mapping[str, Any]], None],
        *,
        gpu: str,
        engine: Engine,
        keep_going: bool,
    ) -> None:
        """`runtime` is the fake runtime that the program is linked with."""
        self._say = say
        self._warned: set[str] = set()
        self._keep_going = keep_going
        self._frees_fail = False
        self._gpu = VirtualGpu(
            spec(gpu), sample_instructions=None, engine=engine, prints=True, adds_up=True
        )
        self._host = ProgramHost(
            self._gpu,
            GuardedMemory(runtime),
            self._launched,
            self._stopped,
            self._warn,
            self._answered,
            self._cut_short,
            keep_going=keep_going,
        )
        self._gpu.use(self._host)
        self._gpu.attach(runtime)

    def refuse(self, message: str) -> None:
        self._say({"what": "refused", "message": message})

    def end(self, code: int) -> None:
        """The program ends by itself."""
        leaked = [] if self._frees_fail else list(self._host.unfreed.values())
        self._say({"what": "exit", "code": code, "leaked": leaked, "notes": dict(self._gpu.notes)})
        self._host.close()

    def _launched(self, done: LaunchReport, estimate: Estimate) -> None:
        launch = done.launch
        for where, message in warnings_of([done]).items():
            self._warn(where, message)
        self._say(
            {
                "what": "launch",
                "kernel": launch.kernel,
                "grid": [launch.grid.x, launch.grid.y, launch.grid.z],
                "block": [launch.block.x, launch.block.y, launch.block.z],
                "estimated_us": estimate.us,
                "limiter": estimate.limiter,
                "why": estimate.why,
                "counters": vars(done.counters),
            }
        )

    def _warn(self, where: str, message: str) -> None:
        if where not in self._warned:
            self._warned.add(where)
            self._say({"what": "warning", **self._told(message)})

    def _answered(self, call: str) -> None:
        self._say({"what": "answered", "call": call})

    def _cut_short(self, kernel: str) -> None:
        self._say({"what": "cut short", "kernel": kernel})

    def _stopped(self, message: str, unsupported: bool) -> None:
        self._frees_fail = not self._keep_going
        what = "refused" if unsupported else "fault"
        self._say({"what": what, **self._told(message)})

    def _told(self, message: str) -> dict[str, str]:
        """With the path of the source file that it names."""
        return {"message": message, "path": self._host.sources.get(place_of(message)[0], "")}
