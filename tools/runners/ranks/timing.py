"""Times of one rank: all sides by turns, as graphs of calls; all ranks start together.

Before each sample, the stream pauses until the host has queued all of it, then makes one call of
the baseline, which ends on all ranks at the same moment but for a signal's way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from astra_chat.tools.runners.oracle import drawn_case
from astra_chat.tools.runners.references import load_reference
from astra_chat.tools.types import Case
from astra_chat.tools.task.ranks import RanksTask
from astra_chat.tools.runners.ranks.checking import Rank, Shared, Tensors, placed
from astra_chat.tools.ranks.messages import RIVAL, Launched, RankRequest, Samples

CALLS, WARM_UP = 50, 3
"""Calls of one graph, and those before it is captured."""
PAUSE_US = 400.0
"""Longer than the host takes to queue one sample."""


def join(asked: RankRequest, rank: Rank) -> None:
    """Joins the other ranks in NCCL. Raises torch's RuntimeError where that fails."""
    meeting = f"file://{asked.meeting}"
    dist.init_process_group(
        "nccl", meeting, rank=asked.rank, world_size=asked.ranks, device_id=rank.device
    )
    dist.all_reduce(torch.zeros(1, device=rank.device))
    rank.finish()


class Timing:
    """All samples of one rank, which has joined its peers in NCCL."""

    def __init__(self, task: RanksTask, asked: RankRequest, rank: Rank, shared: Shared) -> None:
        self._task, self._asked, self._rank, self._shared = task, asked, rank, shared
        self._reference = load_reference(task.task)

    def run(self, send: Callable[[Launched | Samples], None]) -> None:
        """Times every case, and sends its samples. Raises what the device raises for a kernel's
        fault."""
        for number, case in enumerate(self._asked.cases):
            calls = self._calls(case, number)
            graphs = {name: self._captured(one, CALLS) for name, one in calls.items()}
            meet = self._captured(calls[self._asked.sides[-1].name], 1)
            taken: dict[str, list[float]] = {name: [] for name in graphs}
            for _ in range(self._asked.rounds):
                for name in (*graphs, *reversed(graphs)):
                    taken[name].append(self._sample(meet, graphs[name]))
                send(Launched(number=number))
            send(Samples(number=number, us={n: tuple(us) for n, us in taken.items()}))

    def _calls(self, case: Case, number: int) -> dict[str, Callable[[], Any]]:
        """What makes one call of each side on the current stream, by its name."""
        generator = torch.Generator().manual_seed(number)
        made = self._reference.make_inputs(drawn_case(self._task.task, case), generator)
        mine = made[self._task.shared.arg.name][self._asked.rank]
        content = mine.contiguous().flatten().view(torch.uint8).to(self._rank.device)
        self._shared.own[self._task.shared.arg.name][: len(content)].copy_(content)
        calls: dict[str, Callable[[], Any]] = {}
        for side in self._asked.sides:
            arrays = self._shared.arrays(self._task, side.name)
            tensors = {**arrays, **self._tensors(case, made, arrays)}
            calls[side.name] = self._rank.bound(side, side.plans[number], tensors)
        if self._asked.norm is not None:
            tensors = {"input": placed(mine, self._rank.device)}
            tensors |= {n: placed(made[n], self._rank.device) for n in ("residual", "weight")}
            norm = self._rank.bound(self._asked.norm, self._asked.norm.plans[number], tensors)
            calls[RIVAL] = partial(_rival, tensors["input"], norm)
        return calls

    def _tensors(self, case: Case, made: Tensors, arrays: Tensors) -> Tensors:
        """The launcher's tensors beside the arrays of pointers."""
        own = {}
        for arg in self._task.task.args:
            if arg.name not in arrays:
                dtype = getattr(torch, arg.dtype_of(case))
                empty = torch.zeros(arg.shape_of(case), dtype=dtype)
                own[arg.name] = placed(made.get(arg.name, empty), self._rank.device)
        return own

    def _captured(self, one: Callable[[], Any], count: int) -> torch.cuda.CUDAGraph:
        for _ in range(WARM_UP):
            one()
        self._rank.finish()
        graph = torch.cuda.CUDAGraph()
        # NCCL's own thread asks for events in the meantime.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for _ in range(count):
                one()
        graph.replay()
        self._rank.finish()
        return graph

    def _sample(self, meet: torch.cuda.CUDAGraph, graph: torch.cuda.CUDAGraph) -> float:
        """Microseconds a call, from when the ranks have met."""
        event: Any = torch.cuda.Event
        start, end = (event(enable_timing=True) for _ in range(2))
        self._rank.pause(PAUSE_US)
        meet.replay()
        start.record()
        graph.replay()
        end.record()
        self._rank.finish()
        return float(start.elapsed_time(end)) * 1000 / CALLS


def _rival(tensor: torch.Tensor, norm: Callable[[], None]) -> None:
    dist.all_reduce(tensor)
    norm()
