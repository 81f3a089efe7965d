"""The runner process of device `cuda`: runs a candidate on a real GPU and hands back bytes."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import torch

from astra_chat.tools.children.arguments import (
    Call,
    launch,
    limit_files_and_cores,
    poison,
    task_of,
)
from astra_chat.tools.children.cuda_timing import TimedCall
from astra_chat.tools.layout import Bytes, poisoned
from astra_chat.tools.process import Reporter
from astra_chat.tools.sandbox.seccomp import lock
from astra_chat.tools.tasks import Task

GUARD_BYTES = 4096
"""Poisoned bytes on both sides of every argument: a write outside shows."""

LAUNCH_FAILURE = 719
"""cudaErrorLaunchFailure, where torch does not say which error it was."""


def main() -> None:
    reporter = Reporter()
    limit_files_and_cores()
    request = reporter.request
    task, calls = task_of(request), [Call.of(item) for item in request["calls"]]
    torch.cuda.set_device(request["index"])
    torch.zeros(1, device="cuda")  # the driver opens and starts what it needs before the lock
    lock()
    library = ctypes.CDLL(request["library"])
    if request["mode"] == "profile":
        _profile(task, calls[0], library, request["pattern"])
        return
    baseline = ctypes.CDLL(request["baseline"]) if request["mode"] == "time" else None
    for index, call in enumerate(calls):
        reporter.send("start", index=index)
        try:
            if baseline:
                done = TimedCall(task, call, (baseline, library), request).run()
            else:
                done = _check(task, call, library, request["pattern"])
        except RuntimeError as error:  # torch's word for a CUDA error: the kernel's, and sticky
            done = {"status": getattr(error, "error_code", LAUNCH_FAILURE)}
        reporter.send("case", index=index, **done)
        if done["status"]:
            return


def _check(task: Task, call: Call, library: ctypes.CDLL, pattern: int) -> dict[str, Any]:
    """Run once on a stream of its own; write every argument's bytes, guards included."""
    tensors = [_guarded(poison(task, call, i, pattern), pattern) for i in range(len(task.args))]
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    addresses = [t.data_ptr() + GUARD_BYTES for t in tensors]
    status = launch(library, task, call.case, addresses, stream.cuda_stream)
    if status:
        return {"status": status}
    torch.cuda.synchronize()
    for arg, tensor in zip(task.args, tensors, strict=True):
        tensor.cpu().numpy().tofile(call.after / f"{arg.name}.after")
    return {"status": 0, "guard_bytes": GUARD_BYTES}


def _guarded(content: Bytes, pattern: int) -> torch.Tensor:
    guard = poisoned(GUARD_BYTES, pattern)
    return torch.from_numpy(np.concatenate([guard, content, guard])).cuda()


def _profile(task: Task, call: Call, library: ctypes.CDLL, pattern: int) -> None:
    """One call between profiler marks, after one outside: Nsight Compute records the second."""
    tensors = [
        torch.from_numpy(poison(task, call, i, pattern)).cuda() for i in range(len(task.args))
    ]
    addresses = [t.data_ptr() for t in tensors]
    stream = torch.cuda.current_stream().cuda_stream
    launch(library, task, call.case, addresses, stream)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    launch(library, task, call.case, addresses, stream)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


if __name__ == "__main__":
    main()
