"""All comparisons of several tasks on one GPU, those that matter most first, within a time budget.

Before anything is timed, all processors build, record what is launched and make inputs and results;
what can be kept ready costs no time of the GPU between two measurements. The file is written after
each comparison; given again, what it holds is not measured again.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import get_args

from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Device
from astra_vgpu.ground.errors import BadInput
from lab.baselines.beside import Beside, Pair, Stage, winner_side
from lab.baselines.evidence import Comparison, Evidence, Kernel, read, write
from lab.baselines.foreign import Places

STAGES: tuple[Stage, ...] = get_args(Stage)
"""In their order: winners beside today's kernels, what ours stand for, what is out of reach."""
Key = tuple[str, Kernel, Kernel]


@dataclass
class BaselineMeasuring:
    """One command's comparisons, up to its deadline."""

    out: Path
    device: Device
    deadline: float
    """When the time budget ends, in seconds of time.monotonic()."""
    tell: Callable[[str], None] = lambda _: None
    found: dict[Key, Comparison] = field(default_factory=dict)
    longest_s: dict[str, float] = field(default_factory=dict)
    """Seconds of the longest comparison so far, by task."""

    def __post_init__(self) -> None:
        """Read what the file holds already. Raises BadInput where it is of another device."""
        if self.out.exists():
            known = read(self.out)
            if known.device.name != self.device.name:  # whichever of a machine's GPUs
                raise BadInput(f"{self.out} has results of another device: use another file")
            self.found = {(c.task, c.first, c.second): c for c in known.comparisons}

    def run(self, tasks: Sequence[Task], places: Places, winners: Path | None = None) -> int:
        """Compare what is not known, as far as there is time; how many comparisons are left. With
        `winners`, a folder of live runs' winners, these beside today's kernels and nothing else.
        """
        with ExitStack() as open_tasks:
            besides = [
                open_tasks.enter_context(Beside(task, self.device, self.tell)) for task in tasks
            ]
            pairs = [(one, pair) for one in besides for pair in self.pairs_of(one, places, winners)]
            left = self.wanted(pairs)
            if self.next_in_time(left) is not None:
                self._make_ready(left)
            while (number := self.next_in_time(left)) is not None:
                beside, pair = left.pop(number)
                beside.start_process(1)
                if (number := self.next_in_time(left)) is not None:
                    following = left[number][0]
                    following.start_process(2 if following is beside else 1)
                self._keep(beside, pair)
        return len(left)

    def pairs_of(self, beside: Beside, places: Places, winners: Path | None) -> Iterator[Pair]:
        """Yields what is to be compared of one task."""
        if winners is None:
            yield from beside.pairs(places)
        elif winner := winner_side(beside.task, winners, self.device.spec):
            yield from beside.winner_pairs(places, winner)
        else:
            self.tell(f"{beside.task.name}: {winners} contains no winner for an {self.device.spec}")

    def wanted(self, pairs: Sequence[tuple[Beside, Pair]]) -> list[tuple[Beside, Pair]]:
        """Returns the pairs that the file does not hold, or as failed, by stage; of winners the
        first rival of each task before the second of any."""
        turns = defaultdict[str, int](int)
        news = []
        for beside, pair in pairs:
            turn = turns[beside.task.name] if pair.stage == "winner" else 0
            turns[beside.task.name] += 1
            if not self._known(beside.task, pair):
                news.append((STAGES.index(pair.stage), turn, beside, pair))
        return [one[2:] for one in sorted(news, key=lambda one: one[:2])]

    def next_in_time(self, left: Sequence[tuple[Beside, Pair]]) -> int | None:
        """Returns the index of the first pair that would end before the deadline, taking as long as
        its task's longest; None where none would."""
        time_s = self.deadline - time.monotonic()
        expected = (self.longest_s.get(beside.task.name, 0.0) for beside, _ in left)
        return next((n for n, expected_s in enumerate(expected) if expected_s < time_s), None)

    def _known(self, task: Task, pair: Pair) -> bool:
        held = self.found.get((task.name, pair.first.kernel, pair.second.kernel))
        return held is not None and not held.failure

    def _make_ready(self, left: Sequence[tuple[Beside, Pair]]) -> None:
        """Build and make inputs for all pairs. What fails here fails again in its comparison, which
        says so."""
        began = time.monotonic()
        besides = {beside.task.name: beside for beside, _ in left}
        sides = {
            (beside.task.name, side.kernel): (beside, side)
            for beside, pair in left
            for side in (pair.first, pair.second)
        }
        with ThreadPoolExecutor() as pool:
            work: list[Future[None]] = [pool.submit(b.make_inputs) for b in besides.values()]
            work += [pool.submit(beside.make_ready, side) for beside, side in sides.values()]
            failed = sum(one.exception() is not None for one in work)
        spent_s = time.monotonic() - began
        self.tell(f"{len(work) - failed} of {len(work)} preparations done, {spent_s:.1f} s")

    def _keep(self, beside: Beside, pair: Pair) -> None:
        began = time.monotonic()
        comparison = beside.compare(pair)
        spent_s = time.monotonic() - began
        self.longest_s[comparison.task] = max(self.longest_s.get(comparison.task, 0.0), spent_s)
        self.found[comparison.task, comparison.first, comparison.second] = comparison
        found, day = tuple(self.in_order()), date.today().isoformat()
        write(self.out, Evidence(device=self.device, comparisons=found, day=day))
        self.tell(f"  {_line(comparison)} ({spent_s:.1f} s)")

    def in_order(self) -> Iterator[Comparison]:
        """Yields the comparisons task by task, though each stage goes through all of them."""
        for task in dict.fromkeys(name for name, _, _ in self.found):
            yield from (c for c in self.found.values() if c.task == task)


def _line(comparison: Comparison) -> str:
    if comparison.failure:
        return f"failed: {comparison.failure}"
    return " ".join(f"{case.ratio:.3f}" for case in comparison.cases)
