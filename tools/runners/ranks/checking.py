"""Calls with changing data, shapes and arrivals, each compared with float64 on this rank."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Protocol

import torch

from astra_chat.tools.entropy import Seed
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.run.rank_messages import Burst, Launched, RankRequest, RankSide, WrongCall
from astra_chat.tools.runners.oracle import drawn_case
from astra_chat.tools.runners.ranks.comparing import Comparing, Tensors
from astra_chat.tools.runners.references import load_reference
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.ranks import PeerArray, RanksContract
from astra_chat.tools.types import Case

ALIGNMENT = 1024
"""What a launch plan may know of an address: its remainder by this."""
GUARD_BYTES, GUARD = 4096, 0xA5
"""Bytes behind a rank's shared memory that no kernel may change, and what each of them holds."""
SHORT_TOKENS = 3
"""Rows of calls that are repeated on a virtual GPU."""
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
    def done(self) -> None: ...


@dataclass(frozen=True)
class Shared:
    """What this rank shares, and where its peers' lies."""

    own: Tensors
    """Bytes of each argument without the guard; states are named by side and argument."""
    guards: Tensors
    pointers: Tensors
    """int64 [ranks]: addresses in this process, by the same names."""

    def arrays(self, ranks: RanksContract, side: str) -> Tensors:
        """The launcher's arrays of pointers, by argument."""
        return {p.arg.name: self.pointers[shared_name(p, side)] for p in ranks.peers}

    def broken_guard(self) -> str:
        """Whose guard was written; "" where all are whole."""
        broken = (n for n, guard in self.guards.items() if not bool((guard == GUARD).all()))
        return next(broken, "")


def shared_name(peer: PeerArray, side: str) -> str:
    """Each side has a state of its own, and all have the same inputs."""
    return f"{side}.{peer.arg.name}" if peer.role == "state" else peer.arg.name


def ranks_of(task: Task) -> RanksContract:
    """Returns what the contract says of ranks. Raises ValueError where it has none."""
    if task.ranks is None:
        raise ValueError(f"{task.name} has no ranks")
    return task.ranks


def placed(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Returns a contiguous copy on the device, at a multiple of ALIGNMENT bytes."""
    size = tensor.numel() * tensor.element_size()
    room = torch.empty(size + ALIGNMENT, dtype=torch.uint8, device=device)
    start = -room.data_ptr() % ALIGNMENT
    there = room[start : start + size].view(tensor.dtype).view(tensor.shape)
    there.copy_(tensor)
    return there


@dataclass(frozen=True)
class MadeCall:
    """Inputs and places for the results of one call."""

    case: Case
    inputs: Tensors
    """What reference.py made: of all ranks."""
    results: Tensors


class SideCalls:
    """Makes calls of one side: draws inputs, binds plans, launches."""

    def __init__(self, task: Task, asked: RankRequest, rank: Rank, shared: Shared) -> None:
        self.task, self._asked, self._rank = task, asked, rank
        self.ranks = ranks_of(task)
        self._side, self.reference = asked.sides[0], load_reference(task)
        self._arrays = shared.arrays(self.ranks, self._side.name)
        self.own = shared.own[self.ranks.shared.arg.name]

    def made(self, case: Case, seed: int) -> MadeCall:
        """Draws the inputs of all ranks, and places for the results."""
        generator = torch.Generator().manual_seed(seed)
        made = self.reference.make_inputs(drawn_case(self.task, case), generator)
        inputs = {name: tensor.to(self._rank.device) for name, tensor in made.items()}
        results = {}
        for arg in self.task.args:
            if arg.written:
                shape, dtype = arg.shape_of(case), getattr(torch, arg.dtype_of(case))
                empty = torch.full(shape, torch.nan).to(dtype)
                results[arg.name] = placed(inputs.get(arg.name, empty), self._rank.device)
        return MadeCall(case, inputs, results)

    def launch(
        self,
        one: MadeCall,
        before: Callable[[], None] = lambda: None,
        run_by: Callable[[LaunchPlan, Tensors], None] | None = None,
    ) -> None:
        """Fills this rank's input and launches. `before` is called when all else is ready; `run_by`
        runs the plan instead of the rank's own device."""
        mine = one.inputs[self.ranks.shared.arg.name][self._asked.rank].contiguous()
        read = {
            arg.name: placed(one.inputs[arg.name], self._rank.device)
            for arg in self.task.args
            if not arg.written and arg.name in one.inputs and arg.name not in self._arrays
        }
        plan = self._side.plans[self._asked.cases.index(one.case)]
        tensors = {**self._arrays, **read, **one.results}
        if run_by is None:
            run = self._rank.bound(self._side, plan, tensors)
        else:
            run = partial(run_by, plan, tensors)
        before()
        content = mine.flatten().view(torch.uint8)
        self.own[: len(content)].copy_(content)
        run()


class Checking:
    """All calls of one rank's check."""

    def __init__(self, task: Task, asked: RankRequest, rank: Rank, shared: Shared) -> None:
        self._asked, self._rank, self._shared = asked, rank, shared
        self._calls = SideCalls(task, asked, rank, shared)
        self._comparing = Comparing(task, self._calls.reference)
        self._cases = asked.cases[: len(asked.cases) - asked.counted]

    def run(self, send: Callable[[Launched | Burst], None]) -> None:
        """Makes all calls, in bursts, and sends what each burst did. Raises what the device
        raises for a kernel's fault."""
        asked = self._asked
        for number, start in enumerate(range(0, asked.calls, asked.burst)):
            numbers = range(start, min(start + asked.burst, asked.calls))
            made = [self._made(call) for call in numbers]
            for call, one in zip(numbers, made, strict=True):
                self._calls.launch(one, partial(self._delay, call))
            send(Launched(number=number))
            self._rank.finish()
            send(self._burst(number, numbers, made))

    def _burst(self, number: int, numbers: Sequence[int], made: Sequence[MadeCall]) -> Burst:
        found = [
            self._comparing.compared(call, one.case, one.inputs, one.results)
            for call, one in zip(numbers, made, strict=True)
        ]
        wrong = [one.wrong for one in found] + [self._disturbed(numbers[-1], made[-1])]
        return Burst(
            number=number,
            checksums=tuple(self._checksum(one) for one in made),
            wrong=next(filter(None, wrong), None),
            worst=max((one.worst for one in found if one.wrong is None), default=0.0),
            elements=sum(one.elements for one in found),
        )

    def _random(self, call: int) -> Random:
        """The draws of a call: the same on every rank."""
        return Seed(self._asked.seed).of("call", call).random()

    def _made(self, call: int) -> MadeCall:
        """Every case comes first once, in its order; then short ones more often on a virtual GPU,
        where a long one takes seconds."""
        draw = self._random(call)
        short = [case for case in self._cases if case.dims.get("tokens", 1) <= SHORT_TOKENS]
        more = short if self._asked.device == "virtual" and short else self._cases
        case = self._cases[call] if call < len(self._cases) else draw.choice(more)
        return self._calls.made(case, draw.getrandbits(48))

    def _delay(self, call: int) -> None:
        """Lets this rank be late, perhaps."""
        draw = self._random(call)
        draw.random()
        late = draw.randrange(self._asked.ranks) if draw.random() < LATE_SHARE else -1
        us, on_host = draw.uniform(1, LATE_US), draw.random() < 0.2
        if late != self._asked.rank:
            return
        if on_host:
            time.sleep(us * 1e-6)
        else:
            self._rank.pause(us)

    def _disturbed(self, call: int, last: MadeCall) -> WrongCall | None:
        """What a kernel wrote that it may only read; None where there is nothing."""
        if name := self._shared.broken_guard():
            note = f"bytes behind {name} were written"
            return WrongCall(
                call=call, case=last.case, argument=name, reason="write_outside", note=note
            )
        name = self._calls.ranks.shared.arg.name
        mine = last.inputs[name][self._asked.rank].flatten().view(torch.uint8)
        if torch.equal(self._calls.own[: len(mine)], mine):
            return None
        return WrongCall(call=call, case=last.case, argument=name, reason="input_changed")

    def _checksum(self, one: MadeCall) -> int:
        """A number that differs where bits of results differ that ranks must hold alike."""
        total = 0
        for name in self._calls.ranks.alike:
            bits = one.results[name].flatten().view(torch.uint8).long()
            odd = 2 * torch.arange(len(bits), device=bits.device) + 1
            total = total * 31 + int((bits * odd * odd).sum())
        return total % 2**53
