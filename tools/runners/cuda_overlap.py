"""Two calls of different cases at once on a real GPU, each in buffers and on a stream of its own.

What a kernel keeps outside of its arguments while it runs, a counter or sums that it sets back in
the end, is shared by the two, and shows in the results of one of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from astra_chat.tools.run.protocol import CallRequest
from astra_chat.tools.runners.cuda_buffers import aligned
from astra_chat.tools.runners.cuda_guarded import GuardedCall, addresses_of
from astra_chat.tools.runners.cuda_plans import Kernels
from astra_chat.tools.task.folder import Task

OVERLAPPED = "overlapped"
"""CallRequest.how of both calls of a pair, which follow each other."""
ROUNDS = 4
"""Rounds of a pair of calls: each overlaps in its own way."""
GATE_CYCLES = 2_000_000
"""About 1 ms, in which all launches of a round are put on their streams: they begin together."""


def pair_at(calls: Sequence[CallRequest], index: int) -> Sequence[CallRequest]:
    """The call at this index and the next one, if both are to overlap; else the call alone."""
    pair = calls[index : index + 2]
    return pair if all(call.how == OVERLAPPED for call in pair) else pair[:1]


def overlapped(task: Task, pair: Sequence[GuardedCall], kernels: Kernels) -> None:
    """Run the calls at once, ROUNDS times; write every argument's bytes of each round, guards
    included, one after the other.

    Raises:
        RuntimeError: for a CUDA error.
    """
    for one in pair:
        for arg in task.args:
            (one.call.after / f"{arg.name}.after").write_bytes(b"")
    contents = [one.contents() for one in pair]
    for _ in range(ROUNDS):
        held = [[aligned(c.numel()).copy_(c) for c in mine] for mine in contents]
        _at_once(task, pair, kernels, held)
        for one, blocks in zip(pair, held, strict=True):
            for arg, left in zip(task.args, one.left_in(blocks), strict=True):
                with (one.call.after / f"{arg.name}.after").open("ab") as file:
                    file.write(left.tobytes())


def _at_once(
    task: Task,
    pair: Sequence[GuardedCall],
    kernels: Kernels,
    held: Sequence[Sequence[torch.Tensor]],
) -> None:
    """One round: the streams wait for a gate until everything is on them."""
    enqueues = []
    for one, blocks in zip(pair, held, strict=True):
        addresses = addresses_of(one.lies, blocks, one.guard_bytes)
        enqueues.append(kernels.bind(task, one.call, one.call.launches, addresses))
    gate, streams = torch.cuda.Stream(), [torch.cuda.Stream() for _ in pair]
    torch.cuda.synchronize()
    with torch.cuda.stream(gate):
        torch.cuda._sleep(GATE_CYCLES)
    for stream in streams:
        stream.wait_stream(gate)
    for enqueue, stream in zip(enqueues, streams, strict=True):
        enqueue(stream.cuda_stream)
    torch.cuda.synchronize()
