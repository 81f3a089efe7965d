"""Many calls of a kernel, each compared on the device with results that float64 confirmed.

A set is a case with drawn data; its first call is compared with float64 on the host. Later calls of
the set must give the same bits: a kernel adds in a fixed order. Calls follow each other without a
pause, and the input is overwritten between them, so stale data or signals show as other bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from astra_chat.tools.entropy import Seed
from astra_chat.tools.run.rank_messages import Burst, Launched, WrongCall
from astra_chat.tools.runners.ranks.checking import (
    MadeCall,
    Rank,
    Shared,
    SideCalls,
    placed,
    ranks_of,
)
from astra_chat.tools.runners.ranks.comparing import Comparing, Tensors
from astra_chat.tools.task.folder import Task
from lab.ranks.messages import LabRequest

SETS_PER_CASE, BURST = 3, 1000
LATE_SHARE, LATE_US = 0.02, 200.0


@dataclass
class _Set:
    """Inputs of one call in place, and its confirmed results."""

    one: MadeCall
    content: torch.Tensor
    before: Tensors
    right: Tensors
    run: Callable[[], None]


class Soak:
    """All calls of one rank."""

    def __init__(self, task: Task, asked: LabRequest, rank: Rank, shared: Shared) -> None:
        self._task, self._asked, self._rank = task, asked, rank
        self._side = SideCalls(task, asked, rank, shared)
        self._comparing = Comparing(task, self._side.reference)
        self._arrays = shared.arrays(ranks_of(task), asked.sides[0].name)
        self._seed = Seed(asked.seed)

    def run(self, send: Callable[[Launched | Burst], None]) -> None:
        """Makes all calls in bursts; every burst begins with a full comparison of each set.
        Raises what the device raises for a kernel's fault."""
        sets = [
            self._made(at, number)
            for at in range(len(self._asked.cases))
            for number in range(SETS_PER_CASE)
        ]
        for number, start in enumerate(range(0, self._asked.soak, BURST)):
            wrong = self._full(sets, start)
            bad = torch.zeros(BURST, dtype=torch.int64, device=self._rank.device)
            draw = self._seed.of("burst", number).random()
            for call in range(BURST):
                one = draw.choice(sets)
                late = draw.randrange(self._asked.ranks) if draw.random() < LATE_SHARE else -1
                if late == self._asked.rank:
                    self._rank.pause(LATE_US)
                self._call(one)
                for name, right in one.right.items():
                    bad[call] += (one.one.results[name].view(torch.uint8) != right).sum()
            send(Launched(number=number))
            self._rank.finish()
            found = bad.nonzero()
            if wrong is None and len(found):
                at = int(found[0])
                wrong = WrongCall(
                    call=start + at,
                    case=sets[0].one.case,
                    argument=next(iter(sets[0].right)),
                    reason="value",
                    bad=int(bad[at]),
                    note=f"{len(found)} calls of the burst have other bits than confirmed ones",
                )
            send(Burst(number=number, checksums=(), wrong=wrong, elements=BURST))

    def _made(self, at: int, number: int) -> _Set:
        case, task = self._asked.cases[at], self._task
        one = self._side.made(case, self._seed.of("set", at, number).bits(48))
        own = self._side.ranks.shared.arg.name
        mine = one.inputs[own][self._asked.rank].contiguous().flatten().view(torch.uint8)
        read = {
            arg.name: placed(one.inputs[arg.name], self._rank.device)
            for arg in task.args
            if not arg.written and arg.name in one.inputs and arg.name not in self._arrays
        }
        side = self._asked.sides[0]
        tensors = {**self._arrays, **read, **one.results}
        before = {name: result.clone() for name, result in one.results.items()}
        run = self._rank.bound(side, side.plans[at], tensors)
        return _Set(one, mine.clone(), before, {}, run)

    def _call(self, one: _Set) -> None:
        for name, before in one.before.items():
            one.one.results[name].copy_(before)
        self._side.own[: len(one.content)].copy_(one.content)
        one.run()

    def _full(self, sets: list[_Set], call: int) -> WrongCall | None:
        """Compares one call of each set with float64 and keeps its bits; the first that is wrong.
        Every rank makes all of these calls, or its peers would wait."""
        wrong: WrongCall | None = None
        for one in sets:
            self._call(one)
            self._rank.finish()
            results = one.one.results
            found = self._comparing.compared(call, one.one.case, one.one.inputs, results)
            wrong = wrong or found.wrong
            one.right = {n: result.view(torch.uint8).clone() for n, result in results.items()}
        return wrong
