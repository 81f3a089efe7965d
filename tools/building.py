"""From a source to a build that may be run: source policy, nvcc, audit of the built object."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from astra_chat.tools.build.nvcc import Build, build_all, require_build
from astra_chat.tools.policy.beside_baseline import audit, guard
from astra_chat.tools.steps import Steps
from astra_chat.tools.system.background import Background
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.tiers import baseline_source
from astra_chat.tools.types import BuildFailed, Device, Refused, TimedOut


class Builder:
    """Guards, builds and audits sources of one task, each beside the baseline."""

    def __init__(
        self, task: Task, tier: str, device: Device, stop: Stop, tell: Callable[[int], None]
    ) -> None:
        """`tell` is called with 0 before nvcc runs and 1 after. Raises BadInput where the task has
        no such tier."""
        self.baseline = baseline_source(task, tier)
        self._task, self._tier, self._device = task, tier, device
        self._stop, self._tell = stop, tell

    def guard(self, source: str, steps: Steps) -> Refused | None:
        with steps.step("guard"):
            findings = guard(source, self._task, self.baseline)
        return Refused(gate="guard", findings=findings) if findings else None

    def build(
        self, source: str, steps: Steps, also: Sequence[str], ready: Background
    ) -> Build | Refused | BuildFailed | TimedOut:
        """Builds and audits a source that the guard let pass. The sources `also` are built at the
        same time where the guard lets them pass; `ready` may be building the baseline. Raises
        BadInput where the baseline does not build."""
        self._tell(0)
        with steps.step("build"):
            ahead = [one for one in also if not guard(one, self._task, self.baseline)]
            if ready.running:
                self._build([source, *ahead])
                ready.wait()
            baseline, built, *_ = self._build([self.baseline, source, *ahead])
        self._tell(1)
        known = self._required(baseline)
        if not isinstance(built, Build):
            return built
        steps.note("from the cache" if built.cached else "")
        with steps.step("audit"):  # the baseline is the task's own and trusted
            findings = audit(built, self._task, source, known) if source != self.baseline else ()
        return Refused(gate="audit", findings=findings) if findings else built

    def baseline_build(self) -> Build:
        """Builds the baseline. Raises BadInput where that fails."""
        return self._required(self._build([self.baseline])[0])

    def _build(self, sources: Sequence[str]) -> list[Build | BuildFailed | TimedOut]:
        return build_all(self._task, sources, self._device, self._stop)

    def _required(self, baseline: Build | BuildFailed | TimedOut) -> Build:
        return require_build(baseline, f"the {self._tier} baseline of {self._task.name}")
