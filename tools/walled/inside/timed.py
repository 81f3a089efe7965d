"""Times of calls: on a GPU by events with a cold L2, else by the clock; calls as CUDA graphs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

FLUSH_BYTES = 256 * 2**20
WARM_UP = 3
FEWEST, MOST_S = 10, 3.0
"""Calls that are timed however long they take; seconds after which no further one is."""


def times_us(
    call: Callable[[int], Any],
    calls: int,
    device: str,
    after: Callable[[int, Any], None],
) -> list[float]:
    """Returns microseconds of up to so many calls. `call` gets its number; `after`, outside of the
    time, what it returned. Events are on the current stream: work elsewhere is another finding."""
    for number in range(WARM_UP):
        call(number)
    on_gpu, found = device.startswith("cuda"), list[Callable[[], float]]()
    flush = torch.empty(FLUSH_BYTES if on_gpu else 0, dtype=torch.uint8, device=device)
    began_s = _now_s()
    for number in range(calls):
        if number >= FEWEST and _now_s() - began_s > MOST_S:
            break
        flush.zero_()
        start, end = (_mark(on_gpu) for _ in range(2))
        start.record()
        result = call(number)
        end.record()
        found.append(partial(start.elapsed_time, end))
        after(number, result)
    if on_gpu:
        torch.cuda.synchronize()
    return [elapsed_ms() * 1e3 for elapsed_ms in found]


_now_s = time.monotonic


class HostMark:
    """A moment by the host's clock, as an event of a GPU's."""

    def record(self) -> None:
        self.at_s = time.perf_counter()

    def elapsed_time(self, end: HostMark) -> float:
        """Milliseconds until `end`."""
        return (end.at_s - self.at_s) * 1e3


def _mark(on_gpu: bool) -> Any:
    return torch.cuda.Event(enable_timing=True) if on_gpu else HostMark()


def captured(function: Callable[..., Any], inputs: Sequence[Any]) -> Callable[[int], Any]:
    """Returns what replays a call of these inputs as a CUDA graph. Raises what capturing raises."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            function(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = function(*inputs)

    def replay(_: int) -> Any:
        graph.replay()
        return results

    return replay
