"""Operators of PyTorch timed beside one of our kernels on a GPU; a process of its own.

`python -m lab.baselines.torch_child REQUEST ANSWER`, both JSON files (torch_rivals.py). Both sides
are captured into CUDA graphs of one call after the other, each on the next of several sets of
buffers that together exceed the L2, and replayed by turns, ABBA. Before, one call of ours is
compared with the operator's own arithmetic in float64, by the task's tolerance.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from astra_chat.tools.runners.arguments import launch
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.types import Case

COLD_BYTES = 400 * 2**20
"""Bytes of all sets of buffers together, and two sets at least: several times an L2."""
MOST_SETS, LEAST_CALLS = 512, 64
BLOCKS = 15
EVENT_CALLS = 51
Tensors = dict[str, torch.Tensor]


def main() -> None:
    request, answer = map(Path, sys.argv[1:])
    asked = json.loads(request.read_text())
    task, library = load_task(Path(asked["task"])), ctypes.CDLL(asked["library"])
    cases = [Case.model_validate(one) for one in asked["cases"]]
    operator = OPERATORS[asked["operator"]]
    answer.write_text(json.dumps([_beside(task, library, operator, case) for case in cases]))


def gemv_mm(at: Tensors, eps: float) -> Tensors:
    return {"y": torch.mm(at["x"], at["w"].t(), out=at["y"])}


def gemv_linear(at: Tensors, eps: float) -> Tensors:
    return {"y": torch.nn.functional.linear(at["x"], at["w"])}


def norm_native(at: Tensors, eps: float) -> Tensors:
    """RMSNorm's definition, operator by operator, in fp32."""
    rows = at["input"].to(torch.float32) + at["residual"].to(torch.float32)
    residual = rows.to(at["input"].dtype)
    variance = rows.pow(2).mean(dim=-1, keepdim=True)
    normed = rows * torch.rsqrt(variance + eps) * at["weight"]
    return {"input": normed.to(at["input"].dtype), "residual": residual}


Operator = Callable[[Tensors, float], Tensors]
OPERATORS: dict[str, Operator] = {
    "torch-mm": gemv_mm,
    "torch-linear": gemv_linear,
    "torch-native": norm_native,
}


def expected(at: Tensors, eps: float) -> Tensors:
    """The results in float64, some columns of a product at a time."""
    if "w" in at:
        x = at["x"].double()
        return {
            "y": torch.cat([x @ part.double().t() for part in torch.split(at["w"], 8192)], dim=1)
        }
    rows = at["input"].double() + at["residual"].double()
    scale = torch.rsqrt(rows.square().mean(dim=-1, keepdim=True) + eps)
    return {"input": rows * scale * at["weight"].double(), "residual": rows}


def _drawn(task: Task, case: Case) -> Tensors:
    return {
        arg.name: torch.randn(arg.shape_of(case), device="cuda").to(
            getattr(torch, arg.dtype_of(case))
        )
        for arg in task.args
    }


def _beside(task: Task, library: ctypes.CDLL, operator: Operator, case: Case) -> dict[str, Any]:
    """Times of both sides on a case, in microseconds a call."""
    torch.manual_seed(case.seed)
    eps = next((s.value_in(case) for s in task.scalars if s.name == "eps"), 0.0)
    held = sum(arg.bytes_of(case) for arg in task.args)
    sets = min(MOST_SETS, max(2, -(-COLD_BYTES // held)))
    places = [_drawn(task, case) for _ in range(sets)]

    def ours(at: Tensors) -> None:
        addresses = [at[arg.name].data_ptr() for arg in task.args]
        stream = torch.cuda.current_stream().cuda_stream
        if status := launch(library, task, case, addresses, stream):
            raise RuntimeError(f"the launcher returned CUDA error {status}")

    wrong = _wrong(task, case, places[0], ours, eps)
    if wrong:
        return {"wrong": wrong}
    theirs = [lambda at=at: operator(at, eps) for at in places]
    own = [lambda at=at: ours(at) for at in places]
    graphs = [_captured(calls) for calls in (theirs, own)]
    warm = [_captured(calls[:1] * len(calls)) for calls in (theirs, own)]
    cold_us = _by_turns([graph for graph, _ in graphs], [count for _, count in graphs])
    warm_us = _by_turns([graph for graph, _ in warm], [count for _, count in warm])
    event_us = [_events(calls) for calls in (theirs, own)]
    return {"cold_us": cold_us, "warm_us": warm_us, "event_us": event_us, "wrong": ""}


def _wrong(task: Task, case: Case, at: Tensors, ours: Callable[[Tensors], None], eps: float) -> str:
    """Runs our kernel once on copies; where it differs by more than the task's tolerance, what."""
    copies = {name: tensor.clone() for name, tensor in at.items()}
    wanted = expected(copies, eps)
    ours(copies)
    torch.cuda.synchronize()
    for arg in task.args:
        if arg.written:
            tolerance = task.tolerance_of(arg, case)
            off = (copies[arg.name].double() - wanted[arg.name]).abs()
            allowed = tolerance.atol + tolerance.rtol * wanted[arg.name].abs()
            if bad := int((off > allowed).sum()) + int(off.isnan().sum()):
                return f"{arg.name}: {bad} of {off.numel()} results are off"
    return ""


def _captured(calls: Sequence[Callable[[], object]]) -> tuple[torch.cuda.CUDAGraph, int]:
    """A graph of at least LEAST_CALLS calls, and their number."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # libraries choose and load kernels in first calls
        calls[0]()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    times = -(-LEAST_CALLS // len(calls))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in [*calls] * times:
            call()
    graph.replay()
    torch.cuda.synchronize()
    return graph, len(calls) * times


def _by_turns(graphs: Sequence[torch.cuda.CUDAGraph], counts: Sequence[int]) -> list[list[float]]:
    """Microseconds a call of both graphs, a pair for each block, ABBA."""
    blocks = []
    for _ in range(BLOCKS):
        a, b, again_b, again_a = (_replay_us(graphs[i]) / counts[i] for i in (0, 1, 1, 0))
        blocks.append([(a + again_a) / 2, (b + again_b) / 2])
    return blocks


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _replay_us(graph: torch.cuda.CUDAGraph) -> float:
    start, end = _event(), _event()
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e3


def _events(calls: Sequence[Callable[[], object]]) -> float:
    """Median microseconds of a pair of events round single calls."""
    found = []
    for number in range(EVENT_CALLS):
        start, end = _event(), _event()
        start.record()
        calls[number % len(calls)]()
        end.record()
        end.synchronize()
        found.append(float(start.elapsed_time(end)) * 1e3)
    return statistics.median(found)


if __name__ == "__main__":
    main()
