"""The ends of a contract: calls with each dim at its least and at its greatest extent.

What a baseline cannot launch there is outside what it can do, so the contract is too wide. Small
calls are run; of large ones the launches are recorded, which needs no memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.check.checker import Checker
from astra_chat.tools.check.drawn_dims import least, legal_near
from astra_chat.tools.check.failed import Failed
from astra_chat.tools.check.hidden_cases import BUDGET_BYTES, unique
from astra_chat.tools.check.launch_limits import largest_calls
from astra_chat.tools.check.lost_cases import unlaunched
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.task.domain import Combination
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case
from astra_chat.tools.wording import counted


@dataclass(frozen=True)
class Ends:
    """The baseline at the ends of its contract."""

    calls: int = 0
    run: int = 0
    """Calls whose results were compared with the oracle's; of the others only the launches were
    recorded."""
    failed: tuple[Failed, ...] = ()

    def line(self) -> str:
        """What was tried, in one line."""
        good = self.calls - len(self.failed)
        calls, recorded = counted(self.calls, "call"), self.calls - self.run
        only = f" ({recorded} of them were too large to run: only their launches were checked)"
        line = f"minimum and maximum of every dim: {good} of {calls} correct"
        return line + only * bool(recorded)


def ends(task: Task) -> list[Case]:
    """Returns calls of each combination of dtypes: all dims at their least, each alone at its least
    beside a check case's, and each at its greatest."""
    cases = [kind.case(least(task, kind)) for kind in task.combinations]
    for kind in task.combinations:
        usual = next((case for case in task.check if Combination.of(case) == kind), None)
        for name, dim in task.dims.items() if usual else ():
            assert usual is not None
            wanted = {**usual.dims, name: dim.nearest(dim.min, kind.dtype)}
            dims = legal_near(task, kind, wanted, (name,))
            cases += [kind.case(dims)] if dims else []
    return [case for case in unique([*cases, *largest_calls(task)]) if task.allows(case)]


def at_ends(
    checker: Checker, runner: Runner, oracle: Oracle, built: Build, known: Sequence[Case]
) -> Ends:
    """The baseline on these calls, but for those that are `known`."""
    cases = [case for case in ends(runner.task) if case not in known]
    small = [case for case in cases if runner.task.least_bytes(case) <= BUDGET_BYTES["virtual"]]
    failed = unlaunched(runner, built, [case for case in cases if case not in small])
    failed += checker.learn(oracle.oracle_cases(small, runner.stop))
    return Ends(len(cases), len(small), tuple(failed))
