"""Is a task fit to judge by? Its baseline is right on it, and outputs that cost nothing are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from astra_chat.tools.check.checker import Checker
from astra_chat.tools.check.hidden_cases import draw
from astra_chat.tools.check.trivial_outputs import Trial, trials, undetected
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.mutation.scores import SuiteScore
from astra_chat.tools.mutation.scoring import Scorer
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.trust import acting_files, require_trust
from astra_chat.tools.types import Device


@dataclass(frozen=True)
class TaskReport:
    """What a task's own judging showed."""

    cases: int
    """Of the task's list, with the seeds that it states."""
    failed: tuple[str, ...]
    """Those of them that the baseline fails, and how."""
    hidden: int
    hidden_failed: tuple[str, ...]
    """Drawn cases that the baseline fails: legal by the contract, so the contract is too wide or
    special values meet in ways that fast maths does not survive."""
    trials: tuple[Trial, ...]
    undetected: tuple[str, ...]
    """Where a trivial output passes a whole family of values."""
    seed: str
    """Draws the same cases again."""
    bugs: SuiteScore | None = None
    """Seeded bugs of the baseline that the check cases notice; None: not tried."""

    @property
    def fit(self) -> bool:
        return not self.failed and not self.undetected

    def lines(self) -> list[str]:
        """The report in words."""
        told = [
            f"baseline: right on {self.cases - len(self.failed)} of {self.cases} check cases and"
            f" {self.hidden - len(self.hidden_failed)} of {self.hidden} drawn ones",
            *(f"  {words}" for words in (*self.failed, *self.hidden_failed)),
        ]
        for argument, output in dict.fromkeys((t.argument, t.output) for t in self.trials):
            own = [t for t in self.trials if (t.argument, t.output) == (argument, output)]
            caught, right = sum(not t.passed for t in own), sum(t.right for t in own)
            note = f", {right} on which it is right" if right else ""
            told.append(f"{argument}: {output}: fails on {caught} of {len(own)} cases{note}")
        told += [f"  not told from work: {words}" for words in self.undetected]
        told += self.bugs.lines() if self.bugs else []
        if self.failed or self.hidden_failed:
            told.append(f"the same cases again: --seed {self.seed}")
        return [*told, "fit to judge by" if self.fit else "not fit to judge by"]


def check_task(
    task: Task,
    device: Device,
    tell: Callable[[int, int, str], None] = lambda *_: None,
    mutants: int = 0,
    trust: bool = False,
    entropy: Entropy | None = None,
) -> TaskReport:
    """Run the baseline on the task's cases and on drawn ones; try trivial outputs, and so many
    seeded bugs, on the former.

    `trust` lets a strange task run where this machine cannot isolate it. Raises MissingDependency.
    """
    require_trust(trust, task.baseline, *acting_files(task))
    oracle, stop, entropy = Oracle(task), Stop(), entropy or Entropy()
    seed = entropy.evaluation("the task")
    checker = Checker(Runner(task, device, stop), oracle, entropy)
    try:
        drawn = draw(task, device.kind, seed.of("hidden cases").random())
        truths = oracle.truths([*task.check, *drawn], stop)
        own, hidden = truths[: len(task.check)], truths[len(task.check) :]
        failed, hidden_failed = checker.learn(own, tell), checker.learn(hidden, tell)
        found = trials(task, own, checker.yardstick)
        bugs = None
        if mutants and not failed:
            bugs = Scorer(task, oracle, task.baseline, stop, mutants, tell, entropy).suite()
    finally:
        oracle.close()
    return TaskReport(
        cases=len(own), failed=tuple(failed), hidden=len(hidden),
        hidden_failed=tuple(hidden_failed), trials=tuple(found), seed=seed.text,
        undetected=tuple(undetected(found)), bugs=bugs,
    )  # fmt: skip
