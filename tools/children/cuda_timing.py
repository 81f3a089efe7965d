"""Device time on a real GPU: CUDA-graph replay over rotated buffers, and event pairs.

Baseline and candidate are replayed in blocks of ABBA or BAAB, drawn at random, in one process, so
that clocks and temperature hit both alike. Each block replays a second recording of the baseline
too: what it seems to gain over itself is the noise of this machine and case (A/A). Blocks go on
until the interval of the log-ratio is narrow or the time is up.

What the judge verifies is what a timed replay wrote: one of the candidate's, each as likely as any
other, so there is no other recording and no later call for which it could keep its right results.

Once several streams of a process have run kernels, each kernel of its CUDA graphs begins 0.18 us
later than before, 0.35 us where the L2 was evicted, whatever the kernel (docs/measurements.md). A
server with several streams is in that state, and in between one graph may be in it and another not:
so the process is brought there before anything is timed, and all graphs pay the same.

A kernel that is launched with attributes (programmatic dependent launch) may begin while the launch
before it still runs. Replayed back to back it would overlap with itself, which no serving engine
does, and look up to 1.9 times faster than it is after the GEMM that makes its input. Where baseline
or candidate can do that, a small kernel stands between all launches and its own time is taken off.
"""

from __future__ import annotations

import ctypes
import math
import random
import statistics
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from astra_chat.tools.children.arguments import Call, launch, launcher
from astra_chat.tools.children.cuda_buffers import BufferSets
from astra_chat.tools.children.cuda_clock import Clock
from astra_chat.tools.tasks import Task

MIN_BLOCKS, MAX_BLOCKS, MAX_SECONDS = 10, 40, 3.0
HALF_WIDTH = 0.005
"""Stop when the log-ratio is known this well, or as well as the A/A noise allows."""
WARM_BLOCKS = 5
EVENT_WARMUPS, EVENT_LAUNCHES = 20, 100
SETTLING_ELEMENTS, SETTLING_KERNELS, SETTLING_TURNS = 2**17, 100, 3
"""Ten kernels of 64 blocks on a second stream were enough."""

Replay = Callable[[], float]
"""Replays a graph; microseconds of one launch."""


class TimedCall:
    """Baseline and candidate on one case."""

    def __init__(
        self, task: Task, call: Call, kernels: tuple[ctypes.CDLL, ctypes.CDLL], request: Any
    ) -> None:
        _settle()
        self._task, self._call, self._kernels = task, call, kernels
        self._random = random.Random()
        self._sets = BufferSets(task, call, request["pattern"], self._random)
        self._least_blocks = request["least_blocks"] or MIN_BLOCKS
        self._clock = Clock(request["index"])
        self._timed = 0
        self._spacer = torch.zeros(1, device="cuda").add_(1) if request["spaced"] else None
        self._event_us, self._host_us = 0.0, 0.0

    def run(self) -> dict[str, Any]:
        """Samples in us per launch, and what the timed launches wrote, in files for the judge.

        Never on stream 0, by which a candidate could tell who calls it.
        """
        with torch.cuda.stream(torch.cuda.Stream()):
            return self._run()

    def _run(self) -> dict[str, Any]:
        addresses = self._sets.addresses(0)
        for kernel in self._kernels:
            if status := launch(kernel, self._task, self._call.case, addresses, _stream()):
                return {"status": status}
        torch.cuda.synchronize()
        blocks = self._blocks()
        verified = self._sets.write_back()
        warm = self._warm()
        events = [self._events(kernel) for kernel in self._kernels]
        return {
            "status": 0,
            "guard_bytes": 0,
            "touched": sorted(self._sets.touched),
            "blocks": blocks,
            "warm": warm,
            "baseline_event_us": events[0],
            "candidate_event_us": events[1],
            "launches": self._sets.count,
            "verified_sets": verified,
            "spaced": self._spacer is not None,
            "event_us": self._event_us,
            "host_us": self._host_us,
        }

    def _blocks(self) -> list[dict[str, Any]]:
        """Cold replays in random ABBA order until the ratio is known well enough."""
        baseline, candidate = (self._cold(kernel) for kernel in self._kernels)
        control = self._cold(self._kernels[0])
        deadline = time.monotonic() + MAX_SECONDS
        blocks: list[dict[str, Any]] = []
        for replay in (baseline, candidate, control):
            replay()
        began = time.monotonic()
        while len(blocks) < max(MAX_BLOCKS, self._least_blocks):
            first, second = self._random.choice([(0, 1), (1, 0)])
            spent: tuple[list[float], list[float]] = ([], [])
            replays = (baseline, candidate)
            for which in (first, second, second, first):
                spent[which].append(replays[which]())
                self._perhaps_keep(which)
            blocks.append(
                {
                    "baseline_us": statistics.mean(spent[0]),
                    "candidate_us": statistics.mean(spent[1]),
                    "control_us": statistics.mean([control(), control()]),
                    "spent_s": time.monotonic() - began,
                    **self._clock.read(),
                }
            )
            if len(blocks) >= self._least_blocks and (
                _known(blocks) or time.monotonic() > deadline
            ):
                break
        return blocks

    def _perhaps_keep(self, which: int) -> None:
        """Of the candidate's replays keep one: the n-th takes the place of the kept one with 1/n.

        Source: reservoir sampling, J. S. Vitter 1985, algorithm R.
        """
        if which == 1:
            self._timed += 1
            if self._random.random() < 1 / self._timed:
                self._sets.keep()

    def _warm(self) -> list[dict[str, float]]:
        """Replays over one set of buffers: the data lie in the L2 where they fit."""
        replays = [self._recorded(kernel, warm=True) for kernel in self._kernels]
        return [
            {"baseline_us": replays[0](), "candidate_us": replays[1]()}
            for _ in range(WARM_BLOCKS + 1)
        ][1:]

    def _cold(self, kernel: ctypes.CDLL) -> Replay:
        return self._recorded(kernel, warm=False)

    def _recorded(self, kernel: ctypes.CDLL, *, warm: bool) -> Replay:
        """A graph of launches, spaced if need be, that is timed by each call of the result."""
        launches = self._sets.count
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for index in range(launches):
                addresses = self._sets.addresses(0 if warm else index)
                launch(kernel, self._task, self._call.case, addresses, _stream())
                self._space()
        off = self._spacing_us(launches)

        def replay() -> float:
            if not warm:
                self._sets.refill()
                self._sets.cool()
            return (self._replay_us(graph) - off) / launches

        return replay

    def _space(self) -> None:
        if self._spacer is not None:
            self._spacer.add_(1)

    def _spacing_us(self, launches: int) -> float:
        """What as many launches of the spacer alone take."""
        if self._spacer is None:
            return 0.0
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(launches):
                self._space()
        return statistics.median(self._replay_us(graph) for _ in range(MIN_BLOCKS))

    def _replay_us(self, graph: torch.cuda.CUDAGraph) -> float:
        """By events; the host's clock is kept beside it, for the judge to compare."""
        start, end = _event(), _event()
        torch.cuda.synchronize()
        began = time.perf_counter()
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        self._host_us += (time.perf_counter() - began) * 1e6
        microseconds = float(start.elapsed_time(end)) * 1e3
        self._event_us += microseconds
        return microseconds

    def _events(self, kernel: ctypes.CDLL) -> list[float]:
        """One event pair round each launch, launch overhead included: the paper's method."""
        call = launcher(kernel, self._task, self._call.case, self._sets.addresses(0), _stream())
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


def _known(blocks: list[dict[str, Any]]) -> bool:
    """Whether the log-ratio's interval is as narrow as HALF_WIDTH or the A/A noise."""
    logs = [math.log(b["baseline_us"] / b["candidate_us"]) for b in blocks]
    control = [math.log(b["baseline_us"] / b["control_us"]) for b in blocks]
    half = 2 * statistics.stdev(logs) / math.sqrt(len(logs))
    return half <= max(HALF_WIDTH, abs(statistics.median(control)))


@cache
def _settle() -> None:
    """Let three streams of the process run kernels by turns, once and for all."""
    streams = (torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream())
    values = torch.zeros(SETTLING_ELEMENTS, device="cuda")
    torch.cuda.synchronize()
    for stream in streams * SETTLING_TURNS:
        with torch.cuda.stream(stream):
            for _ in range(SETTLING_KERNELS):
                values.add_(1)
        torch.cuda.synchronize()


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)


def _stream() -> int:
    return int(torch.cuda.current_stream().cuda_stream)
