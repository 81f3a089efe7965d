"""One call of a rank with all counters of the virtual GPU, and the bytes that cross links.

Times of ranks are measured with the data in L2, so they are estimated so.

A call that waits for peers repeats its polls as often as it has to, which says nothing. So a call
is made by all ranks. Then the ranks take turns: each takes back what it wrote to its own memory and
makes the call again, while its peers rest: all that they sent is there, and nothing changes it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.plan.virtual_replay import VirtualReplayer, copies_us
from astra_chat.tools.run.protocol import CaseReport, CountedLaunch
from astra_chat.tools.run.rank_messages import Counted, RankRequest, RankSide
from astra_chat.tools.runners.ranks.checking import MadeCall, Rank, Shared, SideCalls
from astra_chat.tools.runners.ranks.comparing import Tensors
from astra_chat.tools.runners.ranks.virtual_memory import NEVER, VirtualRank, bytes_of
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case
from astra_chat.tools.virtual_gpu.adapter import VirtualGpu, estimate, judged
from astra_vgpu.ground.gpu_specs import spec as spec_of

SEED = 7


class CountingWork:
    """The counted calls of one rank, after its check."""

    def __init__(self, task: Task, asked: RankRequest, rank: Rank, shared: Shared) -> None:
        """Raises ValueError where the rank is no virtual GPU."""
        if not isinstance(rank, VirtualRank):
            raise ValueError("calls are counted only on virtual GPUs")
        self._asked, self._rank, self._shared = asked, rank, shared
        self._calls = SideCalls(task, asked, rank, shared)
        self._names = [n for n in shared.own if n != self._calls.ranks.shared.arg.name]

    def run(self, send: Callable[[Counted], None]) -> None:
        """Counts each case and sends what it did. Raises Fault and PtxUnsupported."""
        first = len(self._asked.cases) - self._asked.counted
        for number, case in enumerate(self._asked.cases[first:]):
            send(self._counted(number, case))

    def _counted(self, number: int, case: Case) -> Counted:
        states = {name: self._shared.own[name] for name in self._names}
        before = {name: state.clone() for name, state in states.items()}
        self._rank.forget_writes()
        self._calls.launch(self._calls.made(case, SEED))
        boards, ended, counted = self._rank.boards, 2 * number + 1, 2 * number + 2
        boards.meet(ended)
        boards.wait(counted, self._asked.rank)
        for name, state in states.items():
            wrote = torch.from_numpy(self._rank.wrote(state))
            state[wrote] = before[name][wrote]
        found = self._again(number, self._calls.made(case, SEED))
        boards.meet(counted)
        return found

    def _again(self, number: int, one: MadeCall) -> Counted:
        side = self._asked.sides[0]
        plan = side.plans[self._asked.cases.index(one.case)]
        counter = _Counter(self._asked.spec, self._rank, side)
        self._calls.launch(one, run_by=counter.run)
        reports, gpu = counter.gpu.reports(), spec_of(self._asked.spec)
        time_of = judged(
            estimate(reports, side.resources, gpu, warm=True), len(reports), copies_us(plan, gpu)
        )
        launches = tuple(
            CountedLaunch(kernel=r.launch.kernel, scale=1.0, counters=r.counters) for r in reports
        )
        return Counted(
            number=number,
            report=CaseReport(estimate=time_of, launches=launches),
            link_read_bytes=counter.read(peers=True),
            link_written_bytes=counter.written_to_peers(),
            own_bytes=counter.read(peers=False),
        )


class _Counter:
    """A virtual GPU with counters, over the same shared memory."""

    def __init__(self, spec: str, rank: VirtualRank, side: RankSide) -> None:
        self.gpu = VirtualGpu(
            spec_of(spec),
            engine="numpy",
            sample_instructions=None,
            counters=True,
            endless_instructions=NEVER,
        )
        self._views = [
            (mapped.of_peer, CountedBytes.of(mapped.array), mapped.name) for mapped in rank.mapped
        ]
        for _, view, name in self._views:
            self.gpu.register(view, name)
        self._replayer = VirtualReplayer(self.gpu, side.ptx, side.resources)

    def run(self, plan: LaunchPlan, tensors: Tensors) -> None:
        """Runs a plan once. Raises Fault and PtxUnsupported."""
        addresses = {n: self.gpu.register(bytes_of(t), n) for n, t in tensors.items()}
        self._replayer.replay(plan, addresses, Random(0))
        if self.gpu.fault is not None:
            raise self.gpu.fault

    def read(self, *, peers: bool) -> int:
        """Bytes of peers' memory, or of this rank's shared memory, that were read."""
        return sum(int(view.bytes_read().sum()) for of, view, _ in self._views if of == peers)

    def written_to_peers(self) -> int:
        """Bytes of peers' memory that were written."""
        return sum(
            int(np.count_nonzero(self.gpu.written(int(view.ctypes.data))))
            for of_peer, view, _ in self._views
            if of_peer
        )


class CountedBytes(np.ndarray[Any, Any]):
    """A view of an array: every element that is taken by a list of indices counts as read.

    Views of it, of any item size, note in the same place.
    """

    seen: NDArray[np.bool_] | None
    start: int

    def __array_finalize__(self, other: Any) -> None:
        self.seen = getattr(other, "seen", None)
        self.start = getattr(other, "start", 0)

    @staticmethod
    def of(array: NDArray[np.uint8]) -> CountedBytes:
        """Returns a view of the array; nothing of it was read."""
        view = array.view(CountedBytes)
        view.seen, view.start = np.zeros(array.nbytes, np.bool_), int(array.ctypes.data)
        return view

    def take(self, indices: Any, *more: Any, **named: Any) -> Any:
        """Takes elements like any array; they count as read."""
        if self.seen is not None:
            first = int(self.__array_interface__["data"][0]) - self.start
            items = np.unique(np.asarray(indices).reshape(-1)).astype(np.int64)
            starts = first + items * self.itemsize
            for byte in range(self.itemsize):
                self.seen[starts + byte] = True
        return np.asarray(self).take(indices, *more, **named)

    def bytes_read(self) -> NDArray[np.bool_]:
        """Which bytes were read so far. Raises ValueError for what counts nothing."""
        if self.seen is None:
            raise ValueError("this is not a view made by CountedBytes.of")
        return self.seen
