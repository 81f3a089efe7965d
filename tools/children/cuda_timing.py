"""Device time on a real GPU: CUDA-graph replay over rotated buffers, and event pairs.

Baseline and candidate are replayed in turns in one process, so that clocks and temperature hit both
alike. Every launch of a graph has buffers of its own; where these do not fill the L2 twice, a large
buffer is read between replays, outside the timed region, so that each launch finds a cold L2.

A kernel that is launched with attributes (programmatic dependent launch) may begin while the launch
before it still runs. Replayed back to back it would overlap with itself, which no serving engine
does, and look up to 1.9 times faster than it is after the GEMM that makes its input. Where baseline
or candidate can do that, a small kernel stands between all launches and its own time is taken off.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import pynvml
import torch

from astra_chat.tools.children.arguments import Call, launch, launcher, poison
from astra_chat.tools.layout import buffer_bytes
from astra_chat.tools.tasks import Task
from astra_chat.tools.types import Case

PAIRS = 21
MIN_LAUNCHES, MAX_LAUNCHES = 20, 1024
EVENT_WARMUPS, EVENT_LAUNCHES = 20, 100
ALIGNMENT_BYTES = 256

Buffers = list[list[int]]
"""Addresses, one list a set, in the order of task.args."""


def time_call(
    task: Task,
    call: Call,
    baseline: ctypes.CDLL,
    candidate: ctypes.CDLL,
    request: dict[str, Any],
) -> dict[str, Any]:
    """Samples in us per launch: graph replays in pairs, event pairs; and the bytes afterwards."""
    sets, keep = _buffer_sets(task, call, request["pattern"])
    flush = _flusher(keep)
    kernels = (baseline, candidate)
    for kernel in kernels:
        if status := launch(kernel, task, call.case, sets[0], _stream()):
            return {"status": status}
    torch.cuda.synchronize()
    spacer = torch.zeros(1, device="cuda").add_(1) if request["spaced"] else None
    graphs = [_record(kernel, task, call.case, sets, spacer) for kernel in kernels]
    launches = max(MIN_LAUNCHES, len(sets))
    spacing_us = _spacing_us(spacer, launches, flush)
    samples: list[list[float]] = [[], []]
    clocks = []
    for pair in range(PAIRS + 1):
        order = (0, 1) if pair % 2 == 0 else (1, 0)
        for which in order:
            microseconds = (_replay(graphs[which], flush) - spacing_us) / launches
            if pair:  # the first pair is the warm-up
                samples[which].append(microseconds)
        clocks.append(_sm_clock_mhz(request["index"]))
    events = [_event_samples(kernel, task, call.case, sets[0]) for kernel in kernels]
    _run_afresh(task, call, candidate, sets[-1], keep, request["pattern"], graphs[1])
    _write_back(task, call, keep)
    return {
        "status": 0,
        "guard_bytes": 0,
        "baseline_us": samples[0],
        "candidate_us": samples[1],
        "baseline_event_us": events[0],
        "candidate_event_us": events[1],
        "sm_clock_mhz": sorted(clocks)[len(clocks) // 2],
        "launches": launches,
        "spaced": spacer is not None,
    }


def _buffer_sets(task: Task, call: Call, pattern: int) -> tuple[Buffers, list[torch.Tensor]]:
    """As many copies of the arguments as fill the L2 twice, one tensor an argument."""
    l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    one_set = sum(buffer_bytes(arg, call.case) for arg in task.args)
    count = min(MAX_LAUNCHES, max(2, math.ceil(2 * l2_bytes / one_set) + 1))
    keep = []
    for index in range(len(task.args)):
        content = torch.from_numpy(poison(task, call, index, pattern)).cuda()
        stride = math.ceil(len(content) / ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        copies = torch.empty((count, stride), dtype=torch.uint8, device="cuda")
        copies[:, : len(content)] = content
        keep.append(copies)
    return [[t[i].data_ptr() for t in keep] for i in range(count)], keep


def _flusher(keep: list[torch.Tensor]) -> torch.Tensor | None:
    """A buffer twice the L2 to read between replays, where the sets alone do not evict."""
    l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    if sum(t.numel() for t in keep) >= 2 * l2_bytes:
        return None
    return torch.zeros(2 * l2_bytes // 4, dtype=torch.float32, device="cuda")


def _record(
    kernel: ctypes.CDLL, task: Task, case: Case, sets: Buffers, spacer: torch.Tensor | None
) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch_index in range(max(MIN_LAUNCHES, len(sets))):
            launch(kernel, task, case, sets[launch_index % len(sets)], _stream())
            if spacer is not None:
                spacer.add_(1)
    return graph


def _spacing_us(spacer: torch.Tensor | None, launches: int, flush: torch.Tensor | None) -> float:
    """What as many launches of the spacer alone take."""
    if spacer is None:
        return 0.0
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            spacer.add_(1)
    return sorted(_replay(graph, flush) for _ in range(PAIRS))[PAIRS // 2]


def _replay(graph: torch.cuda.CUDAGraph, flush: torch.Tensor | None) -> float:
    """Microseconds of one replay."""
    start, end = _event(), _event()
    if flush is not None:
        flush.sum()
    torch.cuda.synchronize()
    start.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e3


def _event_samples(
    kernel: ctypes.CDLL, task: Task, case: Case, addresses: list[int]
) -> list[float]:
    """One event pair round each launch, launch overhead included: the paper's method."""
    call = launcher(kernel, task, case, addresses, _stream())
    pairs = []
    for index in range(EVENT_WARMUPS + EVENT_LAUNCHES):
        start, end = _event(), _event()
        start.record()
        call()
        end.record()
        if index >= EVENT_WARMUPS:
            pairs.append((start, end))
    torch.cuda.synchronize()
    return [float(start.elapsed_time(end)) * 1e3 for start, end in pairs]


def _run_afresh(
    task: Task,
    call: Call,
    candidate: ctypes.CDLL,
    last: list[int],
    keep: list[torch.Tensor],
    pattern: int,
    graph: torch.cuda.CUDAGraph,
) -> None:
    """Poison the last set again and let the timed graph fill it: nothing stale can pass.

    A kernel that works in place would run several times on one set; it is launched once instead.
    """
    for index, copies in enumerate(keep):
        content = torch.from_numpy(poison(task, call, index, pattern)).cuda()
        copies[-1][: len(content)] = content
    torch.cuda.synchronize()
    if any(arg.access == "readwrite" for arg in task.args):
        launch(candidate, task, call.case, last, _stream())
    else:
        graph.replay()
    torch.cuda.synchronize()


def _write_back(task: Task, call: Call, keep: list[torch.Tensor]) -> None:
    """The last set, as the timed launches left it: a timed kernel is checked too."""
    for arg, copies in zip(task.args, keep, strict=True):
        content = copies[-1][: buffer_bytes(arg, call.case)]
        content.cpu().numpy().tofile(call.after / f"{arg.name}.after")


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)


def _stream() -> int:
    return int(torch.cuda.current_stream().cuda_stream)


def _sm_clock_mhz(index: int) -> int:
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    return int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))
