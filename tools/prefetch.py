"""What later steps of an evaluation need, begun while nvcc works. It decides nothing: without it a
judge finds the same, later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.check.checker import Checker
from astra_chat.tools.check.compute_sanitizer import prepare_sanitizers
from astra_chat.tools.check.hidden_cases import Weighted
from astra_chat.tools.check.sweep import CHILD as SWEEP
from astra_chat.tools.profiling.hardware_counters import prepare_counters
from astra_chat.tools.profiling.ncu_cross_check import prepare_cross_check
from astra_chat.tools.profiling.nsight_compute import prepare_ncu
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.background import Background
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, Device
from astra_vgpu.ground.errors import MissingDependency

TIMERS = 4
"""Processes that start while one times."""


class Prefetch:
    """Prepares what one judge needs later. Processes are started and inputs made; nothing of a
    candidate runs before its step asks for it, which is after the audit."""

    def __init__(
        self,
        task: Task,
        device: Device,
        weighted: Weighted,
        baseline_build: Callable[[], Build],
        runner: Runner,
        oracle: Oracle,
        checker: Checker,
    ) -> None:
        self._task, self._device, self.weighted = task, device, weighted
        self._baseline_build = baseline_build
        self._runner, self._oracle, self._checker = runner, oracle, checker
        self.background = Background(self._baseline_first)
        """The baseline's build and check; wait for it where they must be there."""

    def beside_build(self, timed: Sequence[Case] | None) -> None:
        """Prepares inputs, expected outputs and processes for what comes after a build.

        `timed`: what will be timed; empty where it will only be checked, None where it will not be
        run.
        """
        self._oracle.prepare()
        if timed and self._device.kind == "cuda":
            small_first = sorted(timed, key=self._task.least_bytes)
            self._oracle.ahead([*self._checker.own, *small_first])
        self.processes(timed)

    def processes(self, timed: Sequence[Case] | None) -> None:
        """Starts the processes that check baseline and candidate, this twice, and time both, where
        there are none waiting."""
        if timed is None:
            return
        self._runner.prepare("check", self._oracle.inputs, 3)
        self._runner.prepare("check", self._oracle.inputs, child=SWEEP)
        if timed:
            self._runner.prepare("time", self._oracle.inputs)
            self._tools(prepare_counters)

    def confirmation(self) -> None:
        """Prepares NVIDIA's tools, of which a confirmation uses more."""
        self._tools(prepare_sanitizers)
        self._tools(prepare_cross_check)
        self._tools(prepare_ncu)

    def _tools(self, prepare: Callable[[Runner, Path], None]) -> None:
        if self._device.kind == "cuda":
            with suppress(MissingDependency):  # the step itself says what is missing
                prepare(self._runner, self._oracle.inputs)

    def timers(self) -> None:
        """Starts processes that time, for this call and those after it: starting one takes longer
        than a call."""
        self._runner.prepare("time", self._oracle.inputs, TIMERS)

    def _baseline_first(self) -> None:
        self._oracle.prepare()
        if self._device.kind == "virtual":
            self._runner.prepare("check", self._oracle.inputs)
        self._baseline_build()
        self._checker.make_ready()
        if self._device.kind == "cuda":
            self._oracle.ahead([case for case, _ in self.weighted])
