"""The runner process of device `virtual`: runs a candidate on the virtual GPU, without torch."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from astra_chat.tools.children.arguments import (
    Call,
    launch,
    limit_files_and_cores,
    poison,
    task_of,
)
from astra_chat.tools.children.virtual_memory import ClosedMemory
from astra_chat.tools.entropy import Seed
from astra_chat.tools.gpu_specs import spec
from astra_chat.tools.policy.ptx_audit import waiting_kernels
from astra_chat.tools.run.buffer_layout import Bytes, Mask
from astra_chat.tools.sandbox.seccomp import lock
from astra_chat.tools.system.subprocesses import Reporter
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.virtual_gpu.gpu import SAMPLE_INSTRUCTIONS, VirtualGpu
from astra_chat.tools.virtual_gpu.model.estimate import estimate
from astra_chat.tools.virtual_gpu.ptx.lexer import PtxSyntaxError
from astra_chat.tools.virtual_gpu.types import Fault, PtxUnsupported

ILLEGAL_ADDRESS = 700
WHOLE_BYTES = 2**20
"""Of cases up to this size all blocks run, however many: idle ones could crowd those that write out
of a sample, and what was never written is not compared."""


def main() -> None:
    reporter = Reporter()
    limit_files_and_cores()
    request = reporter.request
    task = task_of(request)
    compiled = {kernel: Path(library) for kernel, library in request["compiled"].items()}
    gpu = VirtualGpu(
        spec(request["spec"]), counters=request["counters"], engine=request["engine"],
        compiled=compiled,
    )  # fmt: skip
    resources = {name: tuple(pair) for name, pair in request["resources"].items()}
    memory = ClosedMemory(gpu)
    gpu.use(memory)
    lock(reporter.pipe)
    try:
        library = gpu.load(Path(request["library"]), Path(request["ptx"]), resources)
    except (PtxUnsupported, PtxSyntaxError) as lack:
        reporter.send("case", index=0, **_fault(lack))
        return
    memory.guard(library)
    waiting = waiting_kernels(Path(request["ptx"]).read_text())
    held: list[tuple[Bytes, int]] = []
    # Nobody knows beforehand which blocks of a sample are looked at.
    seed = Seed(request["seed"]).of("blocks").bits(64)
    for index, item in enumerate(request["calls"]):
        reporter.send("start", index=index)
        call = Call.of(item)
        whole = task.least_bytes(call.case) <= WHOLE_BYTES
        gpu.afford(None if whole else SAMPLE_INSTRUCTIONS, seed)
        held = _buffers(task, call, held, memory)
        arrays = [array for array, _ in held]
        called = task.model_copy(update={"entry": call.entry}) if call.entry else task
        done = _run(gpu, library, memory, called, call, arrays, request)
        if not done["status"] and (hasty := _hasty(library, waiting)):
            done = hasty
        reporter.send("case", index=index, **done)


def _buffers(
    task: Task, call: Call, held: list[tuple[Bytes, int]], memory: ClosedMemory
) -> list[tuple[Bytes, int]]:
    """The arguments' buffers before a call, each with its shift; those held are not freed before
    new ones are made."""
    contents = [poison(task, call, i, call.pattern) for i in range(len(task.args))]
    if call.how == "same_buffers":
        for (array, _), content in zip(held, contents, strict=True):
            array[:] = content
        return held
    shifts = [arg.shift_of(call.case) for arg in task.args]
    made = [
        (memory.argument(content, shift, arg.name), shift)
        for content, shift, arg in zip(contents, shifts, task.args, strict=True)
    ]
    for array, shift in held:
        memory.drop(array, shift)
    return made


def _run(
    gpu: VirtualGpu,
    library: ctypes.CDLL,
    memory: ClosedMemory,
    task: Task,
    call: Call,
    arrays: list[Bytes],
    request: dict[str, Any],
) -> dict[str, Any]:
    """Run one case; write every argument's bytes and, if sampled, which of them were written."""
    start = time.monotonic()
    addresses = [
        gpu.register(array, arg.name, uninitialized=not arg.read)
        for array, arg in zip(arrays, task.args, strict=True)
    ]
    gpu.reset()
    before = [array.copy() for array in arrays]
    try:
        stream = _stream(library, call)
        library.vcudart_expect(ctypes.c_uint64(stream))
        with memory.closed():
            status = launch(library, task, call.case, addresses, stream)
        if gpu.fault is not None:
            return _fault(gpu.fault)
        if status:
            return {"status": status}
        if library.vcudart_strayed():
            what = "work on another stream than the caller's, or a copy to or from the host"
            return _unsafe(what, "in the launcher")
        if left := library.cudaPeekAtLastError():
            return _left_error(library, left)
        written = [gpu.written(address) for address in addresses]
        if found := _forbidden_write(task.args, arrays, before, written):
            return found
        sampled = [r for r in gpu.reports() if r.sampled]
        for arg, array, address in zip(task.args, arrays, addresses, strict=True):
            array.tofile(call.after / f"{arg.name}.after")
            if sampled and arg.written:
                gpu.written(address).tofile(call.after / f"{arg.name}.written")
    finally:
        for address in addresses:
            gpu.unregister(address)
    done: dict[str, Any] = {"status": 0, "guard_bytes": 0, "seconds": time.monotonic() - start}
    counted = _counted(gpu, request, memory.copies_us) if request["counters"] else {}
    return done | _remarks(gpu) | counted


def _remarks(gpu: VirtualGpu) -> dict[str, Any]:
    """What there is to say besides the results."""
    found: dict[str, Any] = {}
    if warnings := gpu.warnings():
        found["warnings"] = warnings
    if gpu.notes:
        found["on_numpy"] = dict(gpu.notes)
    parts = [(r.blocks_run, r.launch.grid.count) for r in gpu.reports() if r.sampled]
    if parts:
        found["sampled"] = "{} of {} blocks".format(*parts[0])
        found["sampled_share"] = min(ran / blocks for ran, blocks in parts)
    return found


def _counted(gpu: VirtualGpu, request: dict[str, Any], copies_us: float) -> dict[str, Any]:
    """The estimate of a call's time, and the counters that it rests on."""
    found = asdict(estimate(gpu.reports(), request["resources"], spec(request["spec"])))
    found["us"] += copies_us
    launches = [
        {
            "kernel": r.launch.kernel,
            "scale": r.launch.grid.count / max(1, r.blocks_run),
            "counters": vars(r.counters),
        }
        for r in gpu.reports()
    ]
    return {"estimate": found, "launches": launches}


def _stream(library: ctypes.CDLL, call: Call) -> int:
    """A stream of our own, now and then stream 0: a caller may use either."""
    stream = ctypes.c_void_p()
    if call.seed.of("stream").random().randrange(4):
        library.cudaStreamCreate(ctypes.byref(stream))
    return int(stream.value or 0)


def _left_error(library: ctypes.CDLL, error: int) -> dict[str, Any]:
    """The runtime keeps it: the next caller takes it for its own, or for a sign of this call."""
    library.cudaGetErrorString.restype = ctypes.c_char_p
    words = library.cudaGetErrorString(error).decode()
    what = f"a CUDA call failed with error {error} ({words}), which the launcher neither tells"
    return _unsafe(f"{what} nor clears: the next caller takes it for its own", "in the launcher")


def _hasty(library: ctypes.CDLL, waiting: frozenset[str]) -> dict[str, Any]:
    """A kernel that may begin before the work ahead of it has ended, and never waits for it: its
    inputs need not be there, and what follows it is not held up by what it followed."""
    library.vcudart_hurried.restype = ctypes.c_char_p
    found = iter(lambda: library.vcudart_hurried(), None)
    for kernel in (name.decode() for name in found):
        if kernel not in waiting:
            what = "launched so that it may begin before the work ahead of it has ended"
            return _unsafe(f"{what}, and it never waits for that (griddepcontrol.wait)", kernel)
    return {}


def _forbidden_write(
    args: Sequence[Arg], now: Sequence[Bytes], before: Sequence[Bytes], by_kernels: Sequence[Mask]
) -> dict[str, Any]:
    """What the judge, who compares the bytes, cannot see; nothing is the usual case.

    Memory of the virtual GPU lies in the process, so host code that writes there must not pass;
    and who reads an argument while a kernel uses it as scratch reads what the kernel keeps there.
    """
    for arg, array, old, written in zip(args, now, before, by_kernels, strict=True):
        if ((array != old) & ~written).any():
            what = f"host code wrote to {arg.name}, which is device memory"
            return _unsafe(f"{what}: a segmentation fault on a GPU", "in the launcher")
        if not arg.written and written.any() and np.array_equal(array, old):
            what = f"a kernel wrote to {arg.name}, which may only be read, and put all back"
            return _unsafe(what, "in a kernel that was launched")
    return {}


def _unsafe(what: str, where: str) -> dict[str, Any]:
    return {"status": ILLEGAL_ADDRESS, "unsafe": {"what": what, "where": where}}


def _fault(fault: Fault | PtxUnsupported | PtxSyntaxError) -> dict[str, Any]:
    if isinstance(fault, PtxSyntaxError):  # nvcc wrote it, so it is the virtual GPU that lacks it
        lack = {"what": f"what this PTX says: {fault}", "opcode": "no instruction"}
        return {"status": 801, "unsupported": {**lack, "kernel": "the whole file", "line": 0}}
    if isinstance(fault, PtxUnsupported):
        unsupported = {
            "what": fault.what, "kernel": fault.kernel, "opcode": fault.opcode, "line": fault.line
        }  # fmt: skip
        return {"status": 801, "unsupported": unsupported}
    what = f"{fault.kind}: {fault.message}"
    return {"status": fault.cuda_error, "unsafe": {"what": what, "where": fault.where}}


if __name__ == "__main__":
    main()
