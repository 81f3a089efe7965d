"""Calls whose arguments are too large for an oracle, on the virtual GPU, for their addresses.

Memory that nobody touches costs nothing, so the arguments have their true size. Few indices are the
greatest that are legal, and all floats of small arguments, or those of the first and last rows, are
drawn, the same for all candidates. All else is 0. A few blocks of each launch run, the first and
the last among them. Where all run, it is counted what they wrote.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from astra_chat.tools.check.floats import as_bytes
from astra_chat.tools.plan.model import ArgumentAddress, KernelNode
from astra_chat.tools.plan.virtual_replay import VirtualReplayer
from astra_chat.tools.run.protocol import (
    CallRequest,
    CaseReport,
    StoredBlocks,
    VirtualRequest,
)
from astra_chat.tools.runners.arguments import limit_files_and_cores
from astra_chat.tools.runners.fault_text import item_bytes
from astra_chat.tools.runners.virtual import fault_report
from astra_chat.tools.sandbox.seccomp import lock
from astra_chat.tools.system.reporter import Reporter
from astra_chat.tools.task.block_images import allocations
from astra_chat.tools.task.buffer_layout import Bytes, elements_of
from astra_chat.tools.task.folder import Arg, Task, load_task
from astra_chat.tools.task.placement import Layout, layout
from astra_chat.tools.types import Case, is_float
from astra_chat.tools.virtual_gpu.adapter import (
    Buffer,
    Fault,
    Parts,
    PtxSyntaxError,
    PtxUnsupported,
    Span,
    StoredSpans,
    VirtualGpu,
    zeroed,
)
from astra_vgpu.ground.gpu_specs import spec

PR_SET_THP_DISABLE = 41
"""Option of prctl(2) that turns huge pages off: what is touched lies far apart, and each place
would zero a huge page."""
RACES = "ASTRA_BLOCK_RACES"
"""Switch of the virtual GPU's check for races on global memory, which would need a multiple of the
arguments' size and finds nothing that counts here."""
SAMPLE_INSTRUCTIONS = 2**20
"""Instructions of single threads above which a launch runs a sample of its blocks."""
ENDLESS_INSTRUCTIONS = 2**28
"""Instructions of single threads after which a launch counts as endless, about a second: few blocks
may go through all the elements, and need hours."""
OF_ADDRESSES = ("out_of_bounds", "misaligned")
"""Kinds of faults that concern an address."""
MOST_INDEX_BYTES = 2**24
"""Most bytes of an index argument that is filled."""
MOST_BLOCKS = 4096
"""Most blocks of a launch of which it is said where each stored to."""
MOST_DENSE_BYTES = 2**26
"""Most bytes of which it is looked up whether a launch stored to all."""
MOST_FLOATS = 2**14
"""Most elements of an argument of floats that is filled, or handed back, as a whole."""
END_FLOATS, MOST_ROW_FLOATS = 2**13, 2**16
"""Elements of as many rows as are filled, or handed back, at either end of a larger argument; and
most elements of a row there, if it is longer."""
MOST_COUNTED_BYTES = 2**30
"""Most bytes of the arguments of a call of which it is counted how many were written."""


def main() -> None:
    reporter = Reporter()
    limit_files_and_cores()
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
    request = VirtualRequest.model_validate_json(json.dumps(reporter.request))
    task = load_task(request.task)
    os.environ[RACES] = "off"
    gpu = VirtualGpu(
        spec(request.spec),
        counters=False,
        engine="numpy",
        sample_instructions=SAMPLE_INSTRUCTIONS,
        endless_instructions=ENDLESS_INSTRUCTIONS,
    )
    lock(reporter.pipe)
    kernels = {name for call in request.calls for name in call.launches.kernel_names}
    replayer = VirtualReplayer(gpu, request.ptx, request.resources, kernels)
    for index, call in enumerate(request.calls):
        reporter.send("start", index=index)
        reporter.send("case", **_called(gpu, replayer, task, call).numbered(index))


def _called(
    gpu: VirtualGpu, replayer: VirtualReplayer, task: Task, call: CallRequest
) -> CaseReport:
    """Returns what is wrong with an address; nothing where the call cannot be made here."""
    lies, held = layout(task, call.case), list[int]()
    gpu.reset()
    gpu.memory.spans = StoredSpans()
    # A candidate must not know which blocks run.
    gpu.afford(SAMPLE_INSTRUCTIONS, call.seed.of("blocks").bits(64))
    counted = sum(block.bytes for block in lies.blocks) <= MOST_COUNTED_BYTES
    try:
        blocks = [zeroed(block.bytes + 1)[:-1] for block in lies.blocks]
        addresses = {
            arg.name: int(blocks[number].ctypes.data) + start
            for arg, (number, start) in zip(task.args, lies.places, strict=True)
            if arg.present(call.case)
        }
        _fill_indices(task, lies, blocks)
        _fill_floats(task, lies, blocks)
        for one in allocations(lies, whole=True):
            part = blocks[one.block][one.start : one.stop]
            held.append(gpu.register(part, one.name, weight=one.weight))
        _replay(gpu, replayer, task, call, addresses)
        stored = tuple(_stored_blocks(gpu, gpu.memory.spans, task, call, lies, addresses))
        masks = _masks(gpu, task, lies, addresses)
        if any(report.sampled for report in gpu.reports()):
            if not _is_whole_by_block(task, call):
                return CaseReport(stored=stored)
            left = _left(task, lies, blocks)
            return CaseReport(stored=stored, left=left, wrote_of_left=_wrote_of(left, lies, masks))
        wrote = {name: int(np.count_nonzero(masks[name])) for name in masks if counted}
        left = _left(task, lies, blocks)
        return CaseReport(wrote=wrote if counted else None, stored=stored, left=left)
    except Fault as fault:
        if fault.kind in OF_ADDRESSES:
            return fault_report(fault, item_bytes(task.args, call.case))
    except (MemoryError, PtxUnsupported, PtxSyntaxError):
        pass
    finally:
        for address in held:
            gpu.unregister(address)
    return CaseReport()


def _fill_indices(task: Task, lies: Layout, blocks: Sequence[Bytes]) -> None:
    for at, arg in enumerate(task.args):
        if arg.index is not None and arg.present(lies.case):
            part = blocks[lies.places[at][0]][lies.span(at)]
            if len(part) <= MOST_INDEX_BYTES:
                part[:] = _greatest(arg, lies.case)


def _fill_floats(task: Task, lies: Layout, blocks: Sequence[Bytes]) -> None:
    """The last rows of a large argument are twice as large: maxima of rows differ, too."""
    draws = np.random.default_rng(0)
    for at, arg in enumerate(task.args):
        if arg.read and arg.index is None:
            parts = _floats(lies, at, blocks[lies.places[at][0]][lies.span(at)])
            for factor, rows in enumerate(parts, start=1):
                drawn = factor * draws.uniform(0.5, 1.5, rows.shape[:-1])
                rows[...] = as_bytes(drawn, arg.dtype_of(lies.case)).reshape(rows.shape)


def _left(task: Task, lies: Layout, blocks: Sequence[Bytes]) -> dict[str, str]:
    """What the written arguments of floats hold, of those whose values the contract fixes."""
    found = dict[str, str]()
    for at, arg in enumerate(task.args):
        if arg.written and arg.access != "workspace" and _is_fixed(arg):
            parts = _floats(lies, at, blocks[lies.places[at][0]][lies.span(at)])
            if parts:
                found[arg.name] = b"".join(part.tobytes() for part in parts).hex()
    return found


def _wrote_of(left: Collection[str], lies: Layout, masks: Mapping[str, Bytes]) -> dict[str, str]:
    """Which of the elements of these arguments that are handed back were stored to, as bits."""
    found = dict[str, str]()
    for at, arg in enumerate(lies.args):
        if arg.name in left and arg.name in masks:
            parts = _floats(lies, at, masks[arg.name])
            stored = np.concatenate([part.all(axis=-1).reshape(-1) for part in parts])
            found[arg.name] = np.packbits(stored).tobytes().hex()
    return found


def _is_whole_by_block(task: Task, call: CallRequest) -> bool:
    """Whether what a block stored is a result although other blocks did not run: in the only launch
    of a call, without a workspace for parts of sums."""
    has_workspace = any(a.access == "workspace" and a.present(call.case) for a in task.args)
    return len(call.launches.nodes) == 1 and not has_workspace


def _is_fixed(arg: Arg) -> bool:
    """Whether the contract fixes each value of a written argument."""
    return arg.judged is None or arg.judged.by in ("close", "exact")


def _floats(lies: Layout, at: int, memory: Bytes) -> list[Bytes]:
    """Elements of an argument of floats, [*shape, item]: all where they are few, else those of its
    first and of its last rows; none where its rows are too long. `memory`: what lies in its span, a
    byte for each."""
    arg, case = lies.args[at], lies.case
    if not arg.present(case) or not is_float(arg.dtype_of(case)):
        return []
    shape = arg.shape_of(case)
    if not (size := math.prod(shape)):
        return []
    row = size // shape[0]
    rows = max(END_FLOATS // row, 1)
    if size > MOST_FLOATS and row > MOST_ROW_FLOATS:
        return []
    elements = elements_of(arg, case, memory)
    whole = size <= MOST_FLOATS or 2 * rows >= shape[0]
    return [elements] if whole else [elements[:rows], elements[-rows:]]


def _replay(
    gpu: VirtualGpu,
    replayer: VirtualReplayer,
    task: Task,
    call: CallRequest,
    addresses: Mapping[str, int],
) -> None:
    """Runs a sample of each launch; up to the first node that fails."""
    rng, plan = call.seed.of("undefined").random(), call.launches
    for node in plan.nodes:
        if not _hands_on_places(task, call.case):
            gpu.parts = Parts()
        if replayer.replay(plan.model_copy(update={"nodes": (node,)}), addresses, rng):
            return


def _hands_on_places(task: Task, case: Case) -> bool:
    """Whether a launch may leave indices to the next one, which needs all its blocks then: in a
    workspace, or in an argument of integers. Else it needs none of them for its own addresses."""
    args = [arg for arg in task.args if arg.present(case)]
    return any(
        arg.access == "workspace" or (arg.written and not is_float(arg.dtype_of(case)))
        for arg in args
    )


def _stored_blocks(
    gpu: VirtualGpu,
    spans: StoredSpans,
    task: Task,
    call: CallRequest,
    lies: Layout,
    addresses: Mapping[str, int],
) -> Iterator[StoredBlocks]:
    """Yields where blocks stored to, by launch and argument; but for arguments that share memory
    with others, or that more than kernels write."""
    targets = [node.target for node in call.launches.nodes if not isinstance(node, KernelNode)]
    filled = {target.name for target in targets if isinstance(target, ArgumentAddress)}
    for at, arg in enumerate(task.args):
        alone = lies.blocks[lies.places[at][0]].members == (at,)
        if not arg.written or arg.name not in addresses or arg.name in filled or not alone:
            continue
        if (buffer := gpu.memory.find(addresses[arg.name])) is None:
            continue
        start = addresses[arg.name] - buffer.address
        for report in gpu.reports():
            grid, noted = report.launch.grid, spans.of(report.launch, buffer)
            ran = range(grid.count) if report.ran is None else report.ran
            if noted and len(ran) <= MOST_BLOCKS:
                rows = ((block, *noted.get(block, (start - 1, start - 1))) for block in ran)
                spans_of_ran = [noted[block] for block in ran if block in noted]
                yield StoredBlocks(
                    argument=arg.name,
                    kernel=report.launch.kernel,
                    grid=(grid.x, grid.y, grid.z),
                    blocks=tuple((block, first - start, end - start) for block, first, end in rows),
                    dense=_is_dense(buffer, spans_of_ran),
                )


def _is_dense(buffer: Buffer, spans: Sequence[Span]) -> bool:
    """Whether all bytes of these spans were stored to; not where they are too many to look at."""
    if buffer.written is None or sum(end - first for first, end in spans) > MOST_DENSE_BYTES:
        return False
    return all(buffer.written[first:end].all() for first, end in spans)


def _masks(
    gpu: VirtualGpu, task: Task, lies: Layout, addresses: Mapping[str, int]
) -> dict[str, Bytes]:
    """Which bytes of each written argument were stored to: 1 or 0 a byte."""
    found = dict[str, Bytes]()
    for at, arg in enumerate(task.args):
        if arg.written and arg.name in addresses:
            span, buffer = lies.span(at), gpu.memory.find(addresses[arg.name])
            if buffer is not None and buffer.written is not None:
                start = addresses[arg.name] - buffer.address
                mask = buffer.written[start : start + span.stop - span.start]
                found[arg.name] = mask.view(np.uint8)
    return found


def _greatest(arg: Arg, case: Case) -> Bytes:
    """Index arguments: the greatest legal values, which count up in each row."""
    assert arg.index is not None
    low, high = arg.index.bounds(arg.names_in(case))
    shape = arg.shape_of(case)
    row = np.clip(high - shape[-1] + np.arange(shape[-1]), low, max(low, high - 1))
    values = np.broadcast_to(row, shape).astype(np.dtype(arg.dtype_of(case)))
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


if __name__ == "__main__":
    main()
