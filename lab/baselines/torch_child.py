"""Operators of PyTorch timed beside one of our kernels on a GPU; a process of its own.

`python -m lab.baselines.torch_child REQUEST ANSWER`, both JSON files (torch_rivals.py). Both sides
are captured into CUDA graphs of one call after the other, each on the next of several sets of
buffers that together exceed the L2, and replayed by turns, ABBA. Before, one call of ours is
compared with the task's reference.py, by the task's tolerance.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import json
import math
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from astra_chat.tools.runners.arguments import launch
from astra_chat.tools.runners.indices import draw_indices
from astra_chat.tools.runners.references import load_reference
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.types import Case

COLD_BYTES = 400 * 2**20
"""Bytes of all sets of buffers together, and two sets at least: several times an L2."""
MOST_SETS, LEAST_CALLS = 512, 64
BLOCKS = 15
EVENT_CALLS = 51
FUSED_EXPERTS = "sglang.srt.layers.moe.moe_runner.triton_utils.fused_moe"
Tensors = dict[str, torch.Tensor]
Values = Mapping[str, float]
"""Dims and scalars of a call, by name."""


def main() -> None:
    request, answer = map(Path, sys.argv[1:])
    asked = json.loads(request.read_text())
    task, library = load_task(Path(asked["task"])), ctypes.CDLL(asked["library"])
    cases = [Case.model_validate(one) for one in asked["cases"]]
    operator = OPERATORS[asked["operator"]]
    answer.write_text(json.dumps([_beside(task, library, operator, case) for case in cases]))


def gemv_mm(at: Tensors, values: Values) -> Tensors:
    return {"y": torch.mm(at["x"], at["w"].t(), out=at["y"])}


def gemv_linear(at: Tensors, values: Values) -> Tensors:
    return {"y": torch.nn.functional.linear(at["x"], at["w"])}


def norm_native(at: Tensors, values: Values) -> Tensors:
    """RMSNorm's definition, operator by operator, in fp32."""
    rows = at["input"].to(torch.float32) + at["residual"].to(torch.float32)
    residual = rows.to(at["input"].dtype)
    variance = rows.pow(2).mean(dim=-1, keepdim=True)
    normed = rows * torch.rsqrt(variance + values["eps"]) * at["weight"]
    return {"input": normed.to(at["input"].dtype), "residual": residual}


def router(at: Tensors, values: Values) -> Tensors:
    """A product with fp32 results, which PyTorch has on GPUs only, then the choice of experts,
    operator by operator."""
    x, w = at["hidden_states"], at["router_weight"].t()
    logits = torch.mm(x, w, out_dtype=torch.float32) if x.is_cuda else x.float() @ w.float()
    scores = logits.sigmoid()
    choice = (scores + at["correction_bias"]).view(len(x), int(values["groups"]), -1)
    sums = choice.topk(2, dim=2).values.sum(dim=2)
    chosen = sums.topk(int(values["topk_groups"]), dim=1, sorted=False).indices
    left_out = torch.ones_like(sums, dtype=torch.bool).scatter_(1, chosen, False)
    choice = choice.masked_fill(left_out[:, :, None], -torch.inf).flatten(1)
    ids = choice.topk(int(values["topk"]), dim=1).indices
    weights = scores.gather(1, ids)
    weights = weights / (weights.sum(dim=1, keepdim=True) + 1e-20)
    return {"topk_weights": weights * values["routed_scaling_factor"], "topk_ids": ids.int()}


def paged_sdpa(at: Tensors, values: Values) -> Tensors:
    """Each request's pages gathered, then PyTorch's attention, masked beyond its length."""
    k, v = (
        at[name][at["page_table"].long()].flatten(1, 2).transpose(1, 2)
        for name in ("k_cache", "v_cache")
    )
    there = torch.arange(k.shape[2], device=k.device) < at["lengths"][:, None]
    out = torch.nn.functional.scaled_dot_product_attention(
        at["q"][:, :, None],
        k,
        v,
        attn_mask=there[:, None, None],
        scale=values["sm_scale"],
        enable_gqa=True,
    )
    return {"out": out[:, :, 0]}


def experts(at: Tensors, values: Values) -> Tensors:
    """SGLang's Triton fused_moe with all that it launches, in place, where SGLang is installed. On
    a CPU its definition, operator by operator."""
    x, ids = at["hidden_states"], at["topk_ids"]
    if x.is_cuda:
        found = fused_experts()
        found(x, at["w13"], at["w2"], at["topk_weights"], ids, inplace=True, filter_expert=False)
        return {"out": x}
    gate, up = torch.einsum("th,tkjh->tkj", x.float(), at["w13"][ids.long()].float()).chunk(2, -1)
    h = (torch.nn.functional.silu(gate) * up).to(x.dtype).float()
    results = torch.einsum("tkj,tkhj->tkh", h, at["w2"][ids.long()].float())
    return {"out": torch.einsum("tk,tkh->th", at["topk_weights"], results).to(x.dtype)}


def cross_entropy(at: Tensors, values: Values) -> Tensors:
    """Logits, then their cross-entropy, as eager PyTorch computes both: in bfloat16, which the
    contract does not allow a kernel. On a CPU, where results are compared, in float32."""
    operands = [at["hidden"], at["weight"]]
    if not operands[0].is_cuda:
        operands = [one.float() for one in operands]
    logits = torch.nn.functional.linear(*operands)
    loss = torch.nn.functional.cross_entropy(logits, at["target"], reduction="none")
    return {"loss": loss.float()}


@functools.cache
def fused_experts() -> Callable[..., object]:
    """SGLang's function; it reads the arguments of a server, which are the usual ones here."""
    arguments = importlib.import_module("sglang.srt.server_args")
    arguments.set_global_server_args_for_scheduler(arguments.ServerArgs(model_path="dummy"))
    found: Callable[..., object] = importlib.import_module(FUSED_EXPERTS).fused_experts_impl
    return found


Operator = Callable[[Tensors, Values], Tensors]
OPERATORS: dict[str, Operator] = {
    "torch-mm": gemv_mm,
    "torch-linear": gemv_linear,
    "torch-native": norm_native,
    "torch-router": router,
    "torch-sdpa": paged_sdpa,
    "torch-fused-moe": experts,
    "torch-cross-entropy": cross_entropy,
}


def values_of(task: Task, case: Case) -> dict[str, float]:
    """The dims and scalars of a call, by name."""
    return {**case.dims, **{one.name: one.value_in(case) for one in task.scalars}}


def drawn(task: Task, case: Case, device: str = "cuda") -> Tensors:
    """Arguments of a call: normal numbers, of a product's weights by the length of its sums."""
    generator = torch.Generator().manual_seed(case.seed)
    found = {}
    for arg in task.args:
        shape, dtype = arg.shape_of(case), getattr(torch, arg.dtype_of(case))
        if arg.index:
            found[arg.name] = draw_indices(arg, case, generator).to(device)
            continue
        numbers = torch.randn(shape, device=device)
        scale = math.sqrt(shape[-1]) if arg.weight and len(shape) > 1 else 1.0
        found[arg.name] = (numbers / scale).to(dtype)
    return found


def truth(task: Task, case: Case, at: Tensors) -> Tensors:
    """What the task's reference.py says of a call, in float64."""
    found: Tensors = load_reference(task).reference({**at, **values_of(task, case)})
    return found


def fault(task: Task, case: Case, wanted: Tensors, inputs: Tensors, found: Tensors) -> str:
    """What is wrong with results, by the task's tolerance or reference.py's `accept`; else ""."""
    accept = getattr(load_reference(task), "accept", None)
    if accept and (why := accept({**inputs, **values_of(task, case)}, found)):
        return str(why)
    for arg in task.args:
        if arg.written and arg.judged_by(case) != "accept":
            tolerance = task.tolerance_of(arg, case)
            off = (found[arg.name].double() - wanted[arg.name]).abs()
            allowed = tolerance.atol + tolerance.rtol * wanted[arg.name].abs()
            if bad := int((off > allowed).sum()) + int(off.isnan().sum()):
                return f"{arg.name}: {bad} of {off.numel()} results are off"
    return ""


def _beside(task: Task, library: ctypes.CDLL, operator: Operator, case: Case) -> dict[str, Any]:
    """Times of both sides on a case, in microseconds a call."""
    torch.manual_seed(case.seed)
    values = values_of(task, case)
    held = sum(arg.bytes_of(case) for arg in task.args)
    sets = min(MOST_SETS, max(2, -(-COLD_BYTES // held)))
    places = [drawn(task, case) for _ in range(sets)]

    def ours(at: Tensors) -> None:
        addresses = [at[arg.name].data_ptr() for arg in task.args]
        stream = torch.cuda.current_stream().cuda_stream
        if status := launch(library, task, case, addresses, stream):
            raise RuntimeError(f"the launcher returned CUDA error {status}")

    wrong = _wrong(task, case, places[0], ours)
    if wrong:
        return {"wrong": wrong}
    theirs = [lambda at=at: operator(at, values) for at in places]
    own = [lambda at=at: ours(at) for at in places]
    graphs = [_captured(calls) for calls in (theirs, own)]
    warm = [_captured(calls[:1] * len(calls)) for calls in (theirs, own)]
    cold_us = _by_turns([graph for graph, _ in graphs], [count for _, count in graphs])
    warm_us = _by_turns([graph for graph, _ in warm], [count for _, count in warm])
    event_us = [_events(calls) for calls in (theirs, own)]
    return {"cold_us": cold_us, "warm_us": warm_us, "event_us": event_us, "wrong": ""}


def _wrong(task: Task, case: Case, at: Tensors, ours: Callable[[Tensors], None]) -> str:
    """Runs our kernel once on copies; what is wrong with what it leaves."""
    copies = {name: tensor.clone() for name, tensor in at.items()}
    wanted = truth(task, case, copies)
    ours(copies)
    torch.cuda.synchronize()
    return fault(task, case, wanted, at, {arg.name: copies[arg.name] for arg in task.args})


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
