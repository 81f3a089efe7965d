"""The runner process of device `virtual`: launch plans on the virtual GPU.

No host code of a candidate is here, and torch is never loaded.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.plan.stand_ins import ALIGNMENT
from astra_chat.tools.plan.virtual_replay import VirtualReplayer, copies_us
from astra_chat.tools.policy.ptx_audit import kernels_with_global_atomics, waiting_kernels
from astra_chat.tools.run.protocol import (
    CallRequest,
    CaseReport,
    CountedLaunch,
    UnsafeCall,
    UnsupportedCall,
    VirtualRequest,
)
from astra_chat.tools.runners.arguments import limit_files_and_cores, poison
from astra_chat.tools.runners.fault_text import fault_text, in_order, item_bytes, place_text
from astra_chat.tools.sandbox.seccomp import lock
from astra_chat.tools.system.reporter import Reporter
from astra_chat.tools.task.block_images import (
    Allocation,
    allocations,
    images,
    loose,
    own_buffer,
    own_mask,
)
from astra_chat.tools.task.buffer_layout import Bytes, Mask, changed_between, gathered
from astra_chat.tools.task.folder import Arg, Task, load_task
from astra_chat.tools.task.placement import layout
from astra_chat.tools.virtual_gpu.adapter import (
    SAMPLE_INSTRUCTIONS,
    Fault,
    PtxSyntaxError,
    PtxUnsupported,
    StoreWatch,
    VirtualGpu,
    estimate,
    judged,
)
from astra_vgpu.ground.gpu_specs import spec

ILLEGAL_ADDRESS, NOT_SUPPORTED = 700, 801
WHOLE_BYTES = 2**20
"""Size of a case, in bytes that it moves, up to which all blocks run, however many: idle ones could
crowd those that write out of a sample, and what was never written is not compared."""
TOGETHER = 20
"""So many times more instructions are affordable where no time is estimated, outputs are judged as
a whole, or blocks add to one another's results: ten seconds. A check's calls of many short rows
then run whole: what is wrong beyond some number of rows may lie outside a sample."""
TOO_LARGE = "a launch of this size in which blocks add to each other's results"


def main() -> None:
    reporter = Reporter()
    limit_files_and_cores()
    request = VirtualRequest.model_validate_json(json.dumps(reporter.request))
    task, ptx = load_task(request.task), request.ptx
    gpu = VirtualGpu(
        spec(request.spec),
        counters=request.counters,
        engine=request.engine,
        compiled=request.compiled,
    )
    gpu.memory.descending = request.descending
    lock(reporter.pipe)
    kernels = {name for call in request.calls for name in call.launches.kernel_names}
    try:
        replayer = VirtualReplayer(gpu, ptx, request.resources, kernels)
    except (PtxUnsupported, PtxSyntaxError) as lack:
        reporter.send("case", **fault_report(lack).numbered(0))
        return
    text, state = ptx.read_text(), VirtualModuleVariables(gpu, replayer.variables)
    waiting, adding = waiting_kernels(text), kernels_with_global_atomics(text)
    run = _Run(task, request, gpu, replayer, waiting, adding, state)
    for index, call in enumerate(request.calls):
        reporter.send("start", index=index)
        reporter.send("case", **run.call(call).numbered(index))


class VirtualModuleVariables:
    """What module variables held when this was made; a kernel may have no other state."""

    def __init__(self, gpu: VirtualGpu, variables: Mapping[str, Bytes]) -> None:
        self._gpu, self._variables = gpu, variables
        self._before = {name: array.copy() for name, array in variables.items()}

    def restored(self) -> str:
        """Write the contents back; the first variable that was stored to since the last reset,
        whatever it holds now, or ""."""
        stored = [
            name
            for name, array in self._variables.items()
            if len(array) and self._gpu.memory.stored_to(int(array.ctypes.data))
        ]
        for name in stored:
            self._variables[name][:] = self._before[name]
        return stored[0] if stored else ""


@dataclass
class _Run:
    """The calls of one process."""

    task: Task
    request: VirtualRequest
    gpu: VirtualGpu
    replayer: VirtualReplayer
    waiting: frozenset[str]
    """Kernels that wait for the work ahead of them."""
    adding: frozenset[str]
    """Kernels whose blocks may change one another's results."""
    state: VirtualModuleVariables
    arrays: list[Bytes] = field(default_factory=list)
    """The blocks of the call before."""

    def call(self, call: CallRequest) -> CaseReport:
        """Run one case; write every argument's bytes and, if sampled, which of them were
        written."""
        start, args = time.monotonic(), self.task.args
        whole = self.task.least_bytes(call.case) <= WHOLE_BYTES
        # A candidate must not know which blocks of a sample are compared.
        blocks = self.request.seed.of("blocks").bits(64)
        adding = next((n.kernel for n in call.launches.kernels if n.kernel in self.adding), "")
        more = call.together or adding or not self.request.counters
        most = SAMPLE_INSTRUCTIONS * (TOGETHER if more else 1)
        self.gpu.afford(None if whole else most, blocks)
        self.gpu.left_there = call.pattern
        memory = CallMemory(self.gpu, self.task, call, self.arrays)
        self.arrays = memory.blocks
        if found := _unwaited(call.launches, self.waiting):
            return found
        addresses = memory.register()
        if call.watched:
            at = addresses[call.watched.argument] + call.watched.start
            self.gpu.memory.watch = StoreWatch(at, call.watched.size)
        self.gpu.reset()
        try:
            draws = call.seed.of("undefined").random()
            if status := self.replayer.replay(call.launches, addresses, draws):
                return CaseReport(status=status)
            written, between = memory.stored()
            if between:
                what = f"a kernel wrote between {between}, where there is no argument"
                return _unsafe(what, "in a kernel that was launched")
            arrays, before = memory.after(), memory.before()
            unchanged = memory.unchanged(before, arrays)
            found = _put_back(args, arrays, before, written)
            found = found or _between_rows(args, call, arrays, written)
            if found:
                return found
            sampled = any(report.sampled for report in self.gpu.reports())
            if sampled and adding:
                return fault_report(PtxUnsupported(TOO_LARGE, kernel=adding, opcode="atom", line=0))
            if name := self.state.restored():
                return CaseReport(changed=name)
            for arg, array, by_kernels in zip(args, arrays, written, strict=True):
                _hand_over(arg, call, None if arg.name in unchanged else array, by_kernels, sampled)
        except (Fault, PtxUnsupported) as fault:
            return fault_report(fault, item_bytes(args, call.case))
        finally:
            memory.unregister()
        used = None if sampled else _workspace_bytes(args, written)
        return CaseReport(
            seconds=time.monotonic() - start,
            unchanged=unchanged,
            workspace_bytes=used,
            **self._remarks(call.launches),
        )

    def _remarks(self, plan: LaunchPlan) -> dict[str, Any]:
        """What there is to say besides the results; a time and its counters where asked for."""
        gpu, reports = self.gpu, self.gpu.reports()
        warnings = {place: place_text(text) for place, text in gpu.warnings().items()}
        report: dict[str, Any] = {"warnings": warnings, "on_numpy": dict(gpu.notes)}
        if gpu.memory.watch is not None:
            report["stored_by"] = gpu.memory.watch.last
        parts = [(r.blocks_run, r.launch.grid.count) for r in reports if r.sampled]
        if parts:
            report["sampled"] = "{} of {} blocks".format(*parts[0])
            report["spread_blocks"] = min(ran for ran, _ in parts)
            if any(r.waited for r in reports):
                report["sampled"] += (
                    ", which are the first ones, because later blocks wait for them"
                )
                report["spread_blocks"] = 0
            report["sampled_share"] = min(ran / blocks for ran, blocks in parts)
        if self.request.counters:
            time_of = estimate(reports, self.request.resources, gpu.spec)
            report["estimate"] = judged(time_of, len(reports), copies_us(plan, gpu.spec))
            report["launches"] = tuple(
                CountedLaunch(
                    kernel=r.launch.kernel,
                    scale=r.launch.grid.count / max(1, r.blocks_run),
                    counters=r.counters,
                )
                for r in reports
            )
        return report


def _workspace_bytes(args: Sequence[Arg], written: Sequence[Mask]) -> int:
    """Bytes of all workspaces up to the last one that was stored to."""
    masks = [mask for arg, mask in zip(args, written, strict=True) if arg.access == "workspace"]
    return sum(int(len(mask) - mask[::-1].argmax()) if mask.any() else 0 for mask in masks)


def _unwaited(plan: LaunchPlan, waiting: frozenset[str]) -> CaseReport | None:
    """A kernel that may begin before the work ahead of it has ended, and never waits for it: its
    inputs need not be there, and what follows it is not held up by what it followed."""
    for node in plan.kernels:
        if node.programmatic and node.kernel not in waiting:
            what = "launched with PDL, so it may start before the preceding work has ended"
            never = f"{what}, and it never waits for that work (griddepcontrol.wait)"
            return _unsafe(never, place_text(f"kernel {node.kernel}"))
    return None


def _hand_over(
    arg: Arg, call: CallRequest, left: Bytes | None, written: Mask, sampled: bool
) -> None:
    """Write what an argument holds, unless that is known, and, if sampled, what was written."""
    if left is not None:
        left.tofile(call.after / f"{arg.name}.after")
    if sampled and arg.written:
        written.tofile(call.after / f"{arg.name}.written")


def _put_back(
    args: Sequence[Arg],
    now: Sequence[Bytes],
    before: Sequence[Bytes],
    written: Sequence[Mask],
) -> CaseReport | None:
    """Scratch in an argument that may only be read, which the judge, comparing bytes, cannot
    see: who reads it while the kernel runs reads what the kernel keeps there."""
    for arg, array, old, by_kernels in zip(args, now, before, written, strict=True):
        if arg.constant and by_kernels.any() and np.array_equal(array, old):
            what = f"a kernel wrote to {arg.name}, which may only be read, and then restored it"
            return _unsafe(what, "in a kernel that was launched")
    return None


def _between_rows(
    args: Sequence[Arg], call: CallRequest, now: Sequence[Bytes], written: Sequence[Mask]
) -> CaseReport | None:
    """Stores to the padding of what was there already, which the judge, comparing bytes, cannot
    see: another kernel's data may be there, and change meanwhile."""
    for arg, array, by_kernels in zip(args, now, written, strict=True):
        if not arg.strided:
            continue
        _, stored = gathered(arg, call.case, by_kernels)
        changed = changed_between(arg, call.case, array, call.pattern)
        if stored.any() and not changed.any():
            what = (
                f"a kernel wrote between the rows of {arg.name}, although it did not change the"
                " contents"
            )
            return _unsafe(what, "in a kernel that was launched")
    return None


def _unsafe(what: str, where: str, status: int = ILLEGAL_ADDRESS) -> CaseReport:
    return CaseReport(status=status, unsafe=UnsafeCall(what=what, where=where))


def fault_report(
    fault: Fault | PtxUnsupported | PtxSyntaxError, items: Mapping[str, int] | None = None
) -> CaseReport:
    """`items`: bytes of an element of each argument, by its name."""
    if isinstance(fault, Fault):
        what = fault_text(fault.kind, fault.message, items or {})
        if fault.unset:
            read = fault.unset[0]
            what += (
                f"; before that, {read.source or f'PTX line {read.line}'}, thread {read.thread} of"
                f" block {read.block}: {read.what}; {read.advice}"
            )
        return _unsafe(*in_order(what, place_text(fault.where)), fault.cuda_error)
    if isinstance(fault, PtxUnsupported):
        lack = UnsupportedCall(
            what=fault.what, kernel=fault.kernel, opcode=fault.opcode, line=fault.line
        )
    else:  # nvcc wrote it, so it is the virtual GPU that lacks it
        lack = UnsupportedCall(
            what=f"a construct in this PTX: {fault}",
            kernel="the whole file",
            opcode="no instruction",
            line=0,
        )
    return CaseReport(status=NOT_SUPPORTED, unsupported=lack)


# The device memory of one call on the virtual GPU: blocks in which the arguments lie as their case
# says, and what a call left in each argument.


class CallMemory:
    """Memory of a call; those blocks that are `held` of the call before are not freed before new
    ones are made, and are filled again where the call asks for that."""

    def __init__(
        self, gpu: VirtualGpu, task: Task, call: CallRequest, held: Sequence[Bytes]
    ) -> None:
        self._gpu, self._pattern = gpu, call.pattern
        self._lies = lies = layout(task, call.case)
        contents = [poison(task, call, i, call.pattern) for i in range(len(task.args))]
        made = images(lies, contents, call.pattern)
        if call.how == "same_buffers":
            self.blocks = list(held)
            for array, image in zip(self.blocks, made, strict=True):
                array[:] = image
        else:
            pairs = zip(made, lies.blocks, strict=True)
            self.blocks = [_placed(image, block.shift) for image, block in pairs]
        self._first: list[Bytes] = []
        self._registered: dict[Allocation, int] = {}

    def register(self) -> dict[str, int]:
        """Make it device memory; the address of every argument, by name."""
        lies = self._lies
        for one in allocations(lies):
            part = self.blocks[one.block][one.start : one.stop]
            self._registered[one] = self._gpu.register(
                part, one.name, uninitialized=not one.read, weight=one.weight
            )
        for block, array in zip(lies.blocks, self.blocks, strict=True):
            kept = block.mixed or any(lies.args[index].constant for index in block.members)
            self._first.append(array.copy() if kept else array)
        return {
            arg.name: int(self.blocks[number].ctypes.data) + start
            for arg, (number, start) in zip(lies.args, lies.places, strict=True)
            if arg.present(lies.case)
        }

    def unregister(self) -> None:
        for address in self._registered.values():
            self._gpu.unregister(address)

    def before(self) -> list[Bytes]:
        """Each argument's buffer before the call; of one that is written and shares no memory, what
        it is now."""
        return self._own(self._first)

    def after(self) -> list[Bytes]:
        """Each argument's buffer now."""
        return self._own(self.blocks)

    def _own(self, blocks: Sequence[Bytes]) -> list[Bytes]:
        numbers = range(len(self._lies.args))
        return [own_buffer(self._lies, i, self._first, blocks, self._pattern) for i in numbers]

    def unchanged(self, before: Sequence[Bytes], after: Sequence[Bytes]) -> tuple[str, ...]:
        """Arguments that may only be read, share no memory and hold all that they held."""
        blocks = [self._lies.blocks[number] for number, _ in self._lies.places]
        return tuple(
            arg.name
            for arg, block, old, new in zip(self._lies.args, blocks, before, after, strict=True)
            if arg.constant and not block.mixed and np.array_equal(old, new)
        )

    def stored(self) -> tuple[list[Mask], str]:
        """Which bytes of each argument were stored to; and the names of arguments between which a
        kernel stored where none lies, or ""."""
        masks = [np.zeros(len(array), np.bool_) for array in self.blocks]
        for one, address in self._registered.items():
            masks[one.block][one.start : one.stop] = self._gpu.written(address)
        own = [own_mask(self._lies, i, masks) for i in range(len(self._lies.args))]
        for number, block in enumerate(self._lies.blocks):
            if block.mixed and (masks[number] & loose(self._lies, number)).any():
                return own, " and ".join(self._lies.args[index].name for index in block.members)
        return own, ""


def _placed(content: Bytes, shift: int) -> Bytes:
    """The content so many bytes past an address with the alignment that plans are recorded for."""
    room = np.empty(ALIGNMENT + shift + len(content), np.uint8)
    start = -int(room.ctypes.data) % ALIGNMENT + shift
    array: Bytes = room[start : start + len(content)]
    array[:] = content
    return array


if __name__ == "__main__":
    main()
