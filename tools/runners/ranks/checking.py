"""Calls with changing data, shapes and arrivals, each compared with float64 on this rank."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

import torch

from astra_chat.tools.entropy import Seed
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.runners.oracle import drawn_case
from astra_chat.tools.runners.references import load_reference
from astra_chat.tools.types import Case
from astra_chat.tools.task.ranks import RANK, RanksTask
from astra_chat.tools.ranks.messages import Burst, Launched, RankRequest, RankSide

Tensors = dict[str, torch.Tensor]
ALIGNMENT = 1024
"""What a launch plan may know of an address: its remainder by this."""
GUARD_BYTES, GUARD = 4096, 0xA5
"""Bytes behind a rank's shared memory that no kernel may change, and what each of them holds."""
LATE_US, LATE_SHARE = 2000.0, 0.3
"""Longest delay of one rank before a call, and the share of the calls before which one is late."""


class Rank(Protocol):
    """A device with one rank's memory (cuda_memory.py, virtual_memory.py)."""

    device: torch.device

    def shared(self, name: str, size: int) -> tuple[torch.Tensor, str]: ...
    def opened(self, name: str, handle: str, size: int) -> int: ...
    def bound(
        self, side: RankSide, plan: LaunchPlan, tensors: Mapping[str, torch.Tensor]
    ) -> Callable[[], None]: ...
    def pause(self, us: float) -> None: ...
    def finish(self) -> None: ...


@dataclass(frozen=True)
class Shared:
    """What this rank shares, and where its peers' lies."""

    own: Tensors
    """Bytes of each argument without the guard; states are named by side and argument."""
    guards: Tensors
    pointers: Tensors
    """int64 [ranks]: addresses in this process, by the same names."""

    def arrays(self, task: RanksTask, side: str) -> Tensors:
        """The launcher's arrays of pointers, by argument."""
        return {p.arg.name: self.pointers[shared_name(p, side)] for p in task.contract.peers}

    def broken_guard(self) -> str:
        """Whose guard was written; "" where all are whole."""
        broken = (n for n, guard in self.guards.items() if not bool((guard == GUARD).all()))
        return next(broken, "")


def shared_name(peer: Any, side: str) -> str:
    """Each side has a state of its own, and all have the same inputs."""
    return f"{side}.{peer.arg.name}" if peer.role == "state" else str(peer.arg.name)


def placed(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Returns a contiguous copy on the device, at a multiple of ALIGNMENT bytes."""
    size = tensor.numel() * tensor.element_size()
    room = torch.empty(size + ALIGNMENT, dtype=torch.uint8, device=device)
    start = -room.data_ptr() % ALIGNMENT
    there = room[start : start + size].view(tensor.dtype).view(tensor.shape)
    there.copy_(tensor)
    return there


@dataclass(frozen=True)
class _Call:
    """One call that is on the stream."""

    case: Case
    inputs: Tensors
    """What reference.py made: of all ranks."""
    results: Tensors


class Checking:
    """All calls of one rank's check."""

    def __init__(self, task: RanksTask, asked: RankRequest, rank: Rank, shared: Shared) -> None:
        self._task, self._asked, self._rank, self._shared = task, asked, rank, shared
        self._side, self._reference = asked.sides[0], load_reference(task.task)
        self._arrays = shared.arrays(task, self._side.name)
        self._own = shared.own[task.shared.arg.name]

    def run(self, send: Callable[[Launched | Burst], None]) -> None:
        """Makes all calls, in bursts, and sends what each burst did. Raises what the device
        raises for a kernel's fault."""
        asked = self._asked
        for number, start in enumerate(range(0, asked.calls, asked.burst)):
            calls = range(start, min(start + asked.burst, asked.calls))
            made = [self._made(call) for call in calls]
            for call, one in zip(calls, made, strict=True):
                self._enqueue(call, one)
            send(Launched(number=number))
            self._rank.finish()
            wrong = [text for one in made if (text := self._wrong(one))]
            wrong += [self._disturbed(made[-1])]
            sums = tuple(self._checksum(one) for one in made)
            send(Burst(number=number, checksums=sums, wrong=next(filter(None, wrong), "")))

    def _random(self, call: int) -> Random:
        """The draws of a call: the same on every rank."""
        return Seed(self._asked.seed).of("call", call).random()

    def _made(self, call: int) -> _Call:
        """Draws the inputs of all ranks. Every case comes first once, in its order."""
        cases, draw = self._asked.cases, self._random(call)
        case = cases[call] if call < len(cases) else draw.choice(cases)
        generator = torch.Generator().manual_seed(draw.getrandbits(48))
        made = self._reference.make_inputs(drawn_case(self._task.task, case), generator)
        inputs = {name: tensor.to(self._rank.device) for name, tensor in made.items()}
        results = {}
        for arg in self._task.task.args:
            if arg.written:
                empty = torch.full(
                    arg.shape_of(case), torch.nan, dtype=getattr(torch, arg.dtype_of(case))
                )
                results[arg.name] = placed(inputs.get(arg.name, empty), self._rank.device)
        return _Call(case, inputs, results)

    def _enqueue(self, call: int, one: _Call) -> None:
        """Fills this rank's input and launches, perhaps late."""
        draw, side = self._random(call), self._side
        draw.random()
        late = draw.randrange(self._asked.ranks) if draw.random() < LATE_SHARE else -1
        us, on_host = draw.uniform(1, LATE_US), draw.random() < 0.2
        mine = one.inputs[self._task.shared.arg.name][self._asked.rank].contiguous()
        weights = {
            arg.name: placed(one.inputs[arg.name], self._rank.device)
            for arg in self._task.task.args
            if not arg.written and arg.name in one.inputs and arg.name not in self._arrays
        }
        plan = side.plans[self._asked.cases.index(one.case)]
        launch = self._rank.bound(side, plan, {**self._arrays, **weights, **one.results})
        if late == self._asked.rank:
            if on_host:
                time.sleep(us * 1e-6)
            else:
                self._rank.pause(us)
        content = mine.flatten().view(torch.uint8)
        self._own[: len(content)].copy_(content)
        launch()

    def _wrong(self, one: _Call) -> str:
        """The first wrong element of a call's results; "" where there is none."""
        scalars = {s.name: s.value_in(one.case) for s in self._task.task.scalars}
        expected = self._reference.reference({**one.inputs, **scalars})
        for arg in self._task.task.args:
            if not arg.written:
                continue
            got, want = one.results[arg.name].double(), expected[arg.name]
            allowed = self._task.task.tolerance_of(arg, one.case)
            bad = ~((got - want).abs() <= allowed.atol + allowed.rtol * want.abs())
            if bool(bad.any()):
                at = tuple(int(i) for i in bad.nonzero()[0])
                return (
                    f"{_label(one.case)}: {arg.name}{list(at)} is {float(got[at]):.6g} instead of"
                    f" {float(want[at]):.6g}; {int(bad.sum()):,} of {bad.numel():,} are wrong"
                )
        return ""

    def _disturbed(self, last: _Call) -> str:
        """What a kernel wrote that it may only read; "" where there is nothing."""
        if name := self._shared.broken_guard():
            return f"{_label(last.case)}: bytes behind {name} were written"
        name = self._task.shared.arg.name
        mine = last.inputs[name][self._asked.rank].flatten().view(torch.uint8)
        if not torch.equal(self._own[: len(mine)], mine):
            return f"{_label(last.case)}: {name} was written, which kernels may only read"
        return ""

    def _checksum(self, one: _Call) -> int:
        """A number that differs where bits of results differ that ranks must hold alike."""
        total = 0
        for name in self._task.contract.alike:
            bits = one.results[name].flatten().view(torch.uint8).long()
            odd = 2 * torch.arange(len(bits), device=bits.device) + 1
            total = total * 31 + int((bits * odd * odd).sum())
        return total % 2**53


def _label(case: Case) -> str:
    """The case as all ranks have it."""
    scalars = {name: value for name, value in case.scalars.items() if name != RANK}
    return case.model_copy(update={"scalars": scalars}).label
