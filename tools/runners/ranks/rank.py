"""One rank of a group: `python -m astra_chat.tools.runners.ranks.rank`, asked and answered by lines
of JSON."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import IO, Protocol, TypeVar

import torch

from astra_chat.tools.entropy import Seed
from astra_chat.tools.run.rank_messages import Done, PeerMemory, RankFailed, RankRequest
from astra_chat.tools.runners.cuda_plans import DriverError
from astra_chat.tools.runners.fault_text import place_text
from astra_chat.tools.runners.ranks.checking import (
    GUARD,
    GUARD_BYTES,
    Checking,
    Rank,
    Shared,
    placed,
    ranks_of,
    shared_name,
)
from astra_chat.tools.runners.ranks.counting import CountingWork
from astra_chat.tools.runners.ranks.drawn_pauses import WaitsForever
from astra_chat.tools.runners.ranks.timing import Timing
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.types import Value
from astra_chat.tools.virtual_gpu.adapter import Fault, PtxUnsupported, titled

THREADS = 4
Send = Callable[[Value], None]


class Work(Protocol):
    """What a rank does once memory is shared."""

    def run(self, send: Send) -> None: ...


R = TypeVar("R", bound=RankRequest)


def main() -> None:
    """Checks or times what the first line of the input asks."""
    serve(RankRequest, usual_work)


def usual_work(task: Task, asked: RankRequest, rank: Rank, shared: Shared) -> list[Work]:
    """The work of the judge's requests."""
    if asked.rounds:
        return [Timing(task, asked, rank, shared)]
    checking = Checking(task, asked, rank, shared)
    return [checking, CountingWork(task, asked, rank, shared)] if asked.counted else [checking]


def serve(kind: type[R], work: Callable[[Task, R, Rank, Shared], list[Work]]) -> None:
    """Does what the first line of the input asks. Ends with its input: a group that dies, or wants
    no more, closes it.

    Args:
        kind: What the line is.
        work: Makes what is done, in order.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print
    asked = kind.model_validate_json(sys.stdin.readline())
    torch.set_num_threads(THREADS)

    def send(message: Value) -> None:
        print(message.model_dump_json(), file=answers, flush=True)

    send(_done(asked, work, send))
    threading.Event().wait()  # peers may still read this rank's memory


def _done(
    asked: R, work: Callable[[Task, R, Rank, Shared], list[Work]], send: Send
) -> Done | RankFailed:
    """Does it all; up to the first launch, what fails is the machine's fault."""
    try:
        task = load_task(asked.folder)
        rank = _rank(asked)
        shared = _exchanged(task, asked, rank, send)
        threading.Thread(target=_end_with, args=(sys.stdin,), daemon=True).start()
        steps = work(task, asked, rank, shared)
    except (DriverError, RuntimeError, OSError) as error:
        return RankFailed(kind="lacking", message=_first_line(error))
    try:
        for step in steps:
            step.run(send)
        rank.done()
    except PtxUnsupported as lack:
        return RankFailed(
            kind="unsupported",
            message=lack.what,
            where=lack.kernel,
            opcode=lack.opcode,
            line=lack.line,
        )
    except Fault as fault:
        return RankFailed(
            kind="unsafe", message=titled(fault.kind, fault.message), where=place_text(fault.where)
        )
    except WaitsForever as error:
        return RankFailed(kind="timed_out", message=str(error))
    except RuntimeError as error:
        return RankFailed(kind="crashed", message=_first_line(error))
    return Done()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _end_with(asked: IO[str]) -> None:
    asked.read()
    os._exit(0)


def _rank(asked: RankRequest) -> Rank:
    if asked.device == "cuda":
        from astra_chat.tools.runners.ranks.cuda_memory import CudaRank

        return CudaRank(asked.rank)
    from astra_chat.tools.runners.ranks.virtual_memory import VirtualRank

    return VirtualRank(asked.spec, _stops(asked))


def _stops(asked: RankRequest) -> Iterator[Random | None]:
    """For each call of the check what draws this rank's stops. At most one rank stops during a
    call: its peers run ahead of it."""
    for call in range(asked.calls):
        draw = Seed(asked.seed).of("stops", call).random()
        yield draw if draw.randrange(asked.ranks + 1) == asked.rank else None


def _exchanged(task: Task, asked: RankRequest, rank: Rank, send: Send) -> Shared:
    """Allocates what this rank shares, and opens what its peers do."""
    sizes = {
        shared_name(peer, side.name): max(peer.arg.bytes_of(case) for case in asked.cases)
        for side in asked.sides
        for peer in ranks_of(task).peers
    }
    made = {name: rank.shared(name, size + GUARD_BYTES) for name, size in sizes.items()}
    for name, (tensor, _) in made.items():
        tensor[sizes[name] :] = GUARD
    rank.finish()
    send(PeerMemory(handles={name: handle for name, (_, handle) in made.items()}))
    handles: list[dict[str, str]] = json.loads(sys.stdin.readline())
    pointers = {}
    for name, size in sizes.items():
        addresses = [
            made[name][0].data_ptr()
            if number == asked.rank
            else rank.opened(name, given[name], size + GUARD_BYTES)
            for number, given in enumerate(handles)
        ]
        pointers[name] = placed(torch.tensor(addresses), rank.device)
    rank.finish()
    own = {name: tensor[: sizes[name]] for name, (tensor, _) in made.items()}
    guards = {name: tensor[sizes[name] :] for name, (tensor, _) in made.items()}
    return Shared(own, guards, pointers)


if __name__ == "__main__":
    main()
