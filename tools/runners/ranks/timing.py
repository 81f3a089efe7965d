"""Times of one rank: all sides by turns, as graphs of calls; all ranks start together.

Before each sample, the stream pauses until the host has queued all of it, then makes one call of
the baseline, which ends on all ranks at the same moment but for a signal's way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from astra_chat.tools.run.rank_messages import Launched, RankRequest, Samples
from astra_chat.tools.runners.oracle import drawn_case
from astra_chat.tools.runners.ranks.checking import Rank, Shared, placed, ranks_of
from astra_chat.tools.runners.ranks.comparing import Tensors
from astra_chat.tools.runners.references import load_reference
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case

CALLS, WARM_UP = 50, 3
"""Calls of one graph, and those before it is captured."""
PAUSE_US = 400.0
"""Longer than the host takes to queue one sample."""


class Timing:
    """All samples of one rank."""

    def __init__(self, task: Task, asked: RankRequest, rank: Rank, shared: Shared) -> None:
        self.task, self.asked, self.rank, self.shared = task, asked, rank, shared
        self.ranks, self.reference = ranks_of(task), load_reference(task)

    def run(self, send: Callable[[Launched | Samples], None]) -> None:
        """Times every case, and sends its samples. Raises what the device raises for a kernel's
        fault."""
        for number, case in enumerate(self.asked.cases):
            calls = self.calls(case, number)
            graphs = {name: self._captured(one, CALLS) for name, one in calls.items()}
            meet = self._captured(calls[self.asked.sides[-1].name], 1)
            taken: dict[str, list[float]] = {name: [] for name in graphs}
            for _ in range(self.asked.rounds):
                for name in (*graphs, *reversed(graphs)):
                    taken[name].append(self._sample(meet, graphs[name]))
                send(Launched(number=number))
            send(Samples(number=number, us={n: tuple(us) for n, us in taken.items()}))

    def calls(self, case: Case, number: int) -> dict[str, Callable[[], Any]]:
        """What makes one call of each side on the current stream, by its name."""
        made = self.made(case, number)
        mine = self.mine(made)
        content = mine.flatten().view(torch.uint8).to(self.rank.device)
        self.shared.own[self.ranks.shared.arg.name][: len(content)].copy_(content)
        calls: dict[str, Callable[[], Any]] = {}
        for side in self.asked.sides:
            arrays = self.shared.arrays(self.ranks, side.name)
            tensors = {**arrays, **self._tensors(case, made, arrays)}
            calls[side.name] = self.rank.bound(side, side.plans[number], tensors)
        return calls

    def made(self, case: Case, number: int) -> Tensors:
        """Inputs of all ranks."""
        generator = torch.Generator().manual_seed(number)
        return dict(self.reference.make_inputs(drawn_case(self.task, case), generator))

    def mine(self, made: Tensors) -> torch.Tensor:
        """Returns what this rank holds before a call."""
        return made[self.ranks.shared.arg.name][self.asked.rank].contiguous()

    def _tensors(self, case: Case, made: Tensors, arrays: Tensors) -> Tensors:
        """The launcher's tensors beside the arrays of pointers."""
        own = {}
        for arg in self.task.args:
            if arg.name not in arrays:
                dtype = getattr(torch, arg.dtype_of(case))
                empty = torch.zeros(arg.shape_of(case), dtype=dtype)
                own[arg.name] = placed(made.get(arg.name, empty), self.rank.device)
        return own

    def _captured(self, one: Callable[[], Any], count: int) -> torch.cuda.CUDAGraph:
        for _ in range(WARM_UP):
            one()
        self.rank.finish()
        graph = torch.cuda.CUDAGraph()
        # Threads of communication libraries ask for events in the meantime.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for _ in range(count):
                one()
        graph.replay()
        self.rank.finish()
        return graph

    def _sample(self, meet: torch.cuda.CUDAGraph, graph: torch.cuda.CUDAGraph) -> float:
        """Microseconds a call, from when the ranks have met."""
        event: Any = torch.cuda.Event
        start, end = (event(enable_timing=True) for _ in range(2))
        self.rank.pause(PAUSE_US)
        meet.replay()
        start.record()
        graph.replay()
        end.record()
        self.rank.finish()
        return float(start.elapsed_time(end)) * 1000 / CALLS
