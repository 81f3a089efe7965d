"""The runner process of device `cuda`: runs a candidate on a real GPU and returns its outputs."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import torch

from astra_chat.tools.children.arguments import launch, limit_files_and_cores, poison, task_of
from astra_chat.tools.children.cuda_poison import Poison, copies
from astra_chat.tools.children.cuda_read_only import ReadOnly
from astra_chat.tools.children.cuda_timing import TimedCall
from astra_chat.tools.entropy import Seed
from astra_chat.tools.run.buffer_layout import poisoned
from astra_chat.tools.run.protocol import CallRequest
from astra_chat.tools.sandbox.seccomp import lock
from astra_chat.tools.system.subprocesses import Reporter
from astra_chat.tools.task.folder import Task

GUARD_BYTES, GUARD_STEP_BYTES, GUARD_STEPS = 4096, 256, 16
"""Poisoned bytes on both sides of every argument, at least: a write outside shows. Some steps more,
drawn for each process: where an argument lies tells a candidate nothing about who is watching."""
LATE_CYCLES = 400_000
"""About 0.2 ms: how much later than the launch the inputs arrive on the stream."""

LAUNCH_FAILURE = 719
"""cudaErrorLaunchFailure, where torch does not say which error it was."""


def main() -> None:
    reporter = Reporter()
    limit_files_and_cores()
    request = reporter.request
    task, calls = task_of(request), [CallRequest.model_validate(item) for item in request["calls"]]
    torch.cuda.set_device(request["index"])
    torch.zeros(1, device="cuda")  # the driver opens and starts what it needs before the lock
    dirt = Poison()
    lock(reporter.pipe)
    library = ctypes.CDLL(request["library"])
    baseline = ctypes.CDLL(request["baseline"]) if request["mode"] == "time" else None
    held: list[torch.Tensor] = []
    for index, call in enumerate(calls):
        reporter.send("start", index=index)
        try:
            if baseline:
                done = TimedCall(task, call, (baseline, library), request).run()
            else:
                done = _check(task, call, library, held, dirt, request)
        except RuntimeError as error:  # torch's word for a CUDA error: the kernel's, and sticky
            done = {"status": getattr(error, "error_code", LAUNCH_FAILURE)}
        reporter.send("case", index=index, **done)
        if done["status"]:
            return


def _check(
    task: Task,
    call: CallRequest,
    library: ctypes.CDLL,
    held: list[torch.Tensor],
    dirt: Poison,
    request: Any,
) -> dict[str, Any]:
    """Run once; write every argument's bytes with the guards on both sides."""
    guard_bytes = _guard_bytes(request["seed"])
    contents = [_guarded(task, call, i, guard_bytes) for i in range(len(task.args))]
    if call.how != "same_buffers":
        held[:] = [_poisoned(c, call.pattern) for c in contents]  # old ones go after new are made
    closable = _closable(task, held, request["index"]) if call.how == "graph" else []
    shifts = [arg.shift_of(call.case) for arg in task.args]
    addresses = [t.data_ptr() + guard_bytes + shift for t, shift in zip(held, shifts, strict=True)]
    torch.cuda.synchronize()
    if call.how == "graph":
        status, after = _replayed(task, call, library, addresses, contents, held, dirt, closable)
    else:
        status, after = _streamed(task, call, library, addresses, contents, held, dirt)
    if status:
        return {"status": status}
    for arg, tensor, shift in zip(task.args, after, shifts, strict=True):
        tensor[shift:].cpu().numpy().tofile(call.after / f"{arg.name}.after")
    return {"status": 0, "guard_bytes": guard_bytes}


def _streamed(
    task: Task,
    call: CallRequest,
    library: ctypes.CDLL,
    addresses: list[int],
    contents: list[torch.Tensor],
    buffers: list[torch.Tensor],
    dirt: Poison,
) -> tuple[int, list[torch.Tensor]]:
    """On a stream of its own, on which the inputs arrive late and the results are taken at once.

    Work that is put on another stream meets inputs that are not there yet, or is not waited for;
    so does a kernel that is launched programmatically and does not wait (cuda_poison.py). Now and
    then it is stream 0, which a caller may use as well.
    """
    own = call.seed.of("stream").random().randrange(4)
    stream = torch.cuda.Stream() if own else torch.cuda.default_stream()
    after = [torch.empty_like(buffer) for buffer in buffers]
    listed = copies(buffers, contents)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LATE_CYCLES)
        dirt.spread(call.pattern, stream.cuda_stream)
        if dirt.delivers:
            dirt.deliver(listed, stream.cuda_stream)
        else:
            for buffer, content in zip(buffers, contents, strict=True):
                buffer.copy_(content, non_blocking=True)
        status = launch(library, task, call.case, addresses, stream.cuda_stream)
        for result, buffer in zip(after, buffers, strict=True):
            result.copy_(buffer, non_blocking=True)
    torch.cuda.synchronize()
    return status, after


def _replayed(
    task: Task,
    call: CallRequest,
    library: ctypes.CDLL,
    addresses: list[int],
    contents: list[torch.Tensor],
    buffers: list[torch.Tensor],
    dirt: Poison,
    closable: list[ReadOnly],
) -> tuple[int, list[torch.Tensor]]:
    """Captured while the buffers hold nothing but poison, and replayed once the inputs are there:
    what runs during the capture is lost, as it is in a server that replays graphs.

    What may only be read is `closable`: during the replay a write there fails.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        stream = torch.cuda.current_stream().cuda_stream
        status = launch(library, task, call.case, addresses, stream)
    if status:
        return status, buffers
    for buffer, content in zip(buffers, contents, strict=True):
        buffer.copy_(content)
    torch.cuda.synchronize()
    for memory in closable:
        memory.close()
    dirt.spread(call.pattern, int(torch.cuda.current_stream().cuda_stream))
    graph.replay()
    torch.cuda.synchronize()
    return 0, buffers


def _closable(task: Task, held: list[torch.Tensor], index: int) -> list[ReadOnly]:
    """Move what may only be read to memory that can be closed, where this driver has such."""
    found: list[ReadOnly] = []
    for number, arg in enumerate(task.args):
        if not arg.written:
            try:
                found.append(ReadOnly(held[number], index))
            except RuntimeError:
                return found
            held[number] = found[-1].tensor
    return found


def _guard_bytes(seed: str) -> int:
    """Of all calls of this process."""
    return GUARD_BYTES + GUARD_STEP_BYTES * Seed(seed).of("guards").random().randrange(GUARD_STEPS)


def _guarded(task: Task, call: CallRequest, index: int, guard_bytes: int) -> torch.Tensor:
    """An argument's content between guards, on the device; the left one longer by its shift."""
    left = poisoned(guard_bytes + task.args[index].shift_of(call.case), call.pattern)
    right = poisoned(guard_bytes, call.pattern)
    content = poison(task, call, index, call.pattern)
    return torch.from_numpy(np.concatenate([left, content, right])).cuda()


def _poisoned(like: torch.Tensor, pattern: int) -> torch.Tensor:
    """A buffer of this size that holds nothing but poison."""
    return torch.from_numpy(poisoned(like.numel(), pattern)).cuda()


if __name__ == "__main__":
    main()
