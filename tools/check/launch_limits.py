"""Calls too large to be run, whose launches are recorded all the same.

What a launcher does there needs no memory: a grid that the driver refuses and a product that
overflows show in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.check.drawn_dims import Dims, least, legal_near, most_units, within_bytes
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.task.domain import Combination
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case

MOST_BYTES = 2**35
"""Most bytes of a call's arguments: what every GPU of a server holds."""


class LargestCalls:
    """The largest calls of a task that its baseline launches."""

    def __init__(self) -> None:
        self._known: list[Case] | None = None
        self.left_out = 0
        """Number of the largest calls on which the baseline's launcher fails."""

    @property
    def note(self) -> str:
        """What was left out, as text; "" where nothing was."""
        what = (
            f"{self.left_out} of the largest valid calls were left out because the baseline fails"
            " there"
        )
        return what if self.left_out else ""

    def of(self, runner: Runner, baseline: Build) -> list[Case]:
        """Returns the calls that the baseline launches: recorded once, for all candidates."""
        if self._known is None:
            cases = list(largest_calls(runner.task))
            plans = runner.record(baseline, cases)
            self._known = [
                case
                for case, plan in zip(cases, plans, strict=True)
                if isinstance(plan, LaunchPlan)
            ]
            self.left_out = len(cases) - len(self._known)
        return self._known


def largest_calls(task: Task) -> Iterator[Case]:
    """For each dim its greatest extent beside the least of the others; then, in each order of one
    dim before all others, what is still affordable of these."""
    for kind in task.combinations:
        asked = (dims for name in task.dims for dims in _from(task, kind, name))
        found = [dims for dims in (legal_near(task, kind, one) for one in asked) if dims]
        for number, dims in enumerate(found):
            case = kind.case(dims)
            if dims not in found[:number] and not any(True for _ in task.flaws(case)):
                yield case


def _from(task: Task, kind: Combination, first: str) -> Iterator[Dims]:
    fits, dims = within_bytes(task, kind, MOST_BYTES), least(task, kind)
    for name in (first, *(other for other in task.dims if other != first)):
        units = most_units(task, kind, dims, name, fits)
        dims = {**dims, name: units * task.dims[name].step(kind.dtype)}
        if name == first:
            yield dims
    yield dims
