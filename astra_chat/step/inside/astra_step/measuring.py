"""One step, measured: each variant's graphs, logits beside float32, blocks by turns, profiles."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch

from astra_step.called_step import NoStep
from astra_step.turns import ALL, WITHOUT, blocks, variants

Sample = dict[str, Any]
TOOK = "took"
"""A call that a winner took, in the package's counts."""


def measure(step: Any, request: Sample, winners: Any, write: Callable[[Sample], None]) -> None:
    """Samples of a step for all variants. `write` gets them after each number of requests, so that
    a program that is stopped has left some."""
    captured: dict[str, Any] = {}
    first = _capture(step, request["operators"], captured, ALL, winners)
    called = sorted({name for name, what, _, _ in first["counts"] if what == TOOK})
    found: Sample = {"facts": step.facts(), "called": called, "variants": {ALL: first}}
    for variant, own in variants(called, request["alone"]).items():
        if variant != ALL:
            found["variants"][variant] = _capture(step, own, captured, variant, winners)
    if WITHOUT not in captured:
        raise RuntimeError(f"the step failed: {found['variants'][WITHOUT]['error']}")
    for batch in request["batches"]:
        _one_batch(step, captured, batch, request, winners, found)
        write(found)


def _capture(
    step: Any, own: list[str], captured: dict[str, Any], variant: str, winners: Any
) -> Sample:
    """Capture a variant's graphs; the calls that its winners took in that time, and the others."""
    before = Counter(winners.COUNTERS.totals())
    winners.switch(own)
    winners.calls()
    calls: dict[str, Sample] = {}
    entry: Sample = {"winners": own, "batches": {}, "calls": calls}

    def finished(batch: int) -> None:
        calls[str(batch)] = winners.calls()

    try:
        captured[variant] = step.capture(finished)
    except NoStep:
        raise
    except Exception as error:  # the other variants are measured
        entry["error"] = f"{type(error).__name__}: {error}".partition("\n")[0]
    counts = Counter(winners.COUNTERS.totals())
    counts.subtract(before)
    entry["counts"] = [[*key, n] for key, n in counts.items() if n > 0]
    entry["off"] = {name: why for name in own if (why := winners.off(name))}
    print(f"captured {variant}: {entry.get('error', 'ok')}", flush=True)
    return entry


def _one_batch(
    step: Any, captured: Mapping[str, Any], batch: int, request: Sample, winners: Any, found: Sample
) -> None:
    winners.switch([])
    plain = [one.clone() for one in step.run(captured[WITHOUT], batch)]
    exact = step.reference(batch)
    if isinstance(exact, str):
        found["no_reference"] = exact
    for variant, graphs in captured.items():
        entry = found["variants"][variant]
        winners.switch(entry["winners"])
        entry["batches"][str(batch)] = _parity(step.run(graphs, batch), plain, exact)
    winners.switch([])
    graphs = {name: step.graph(one, batch) for name, one in captured.items()}
    draws = random.Random(f"{request['seed']} {batch}")
    timed = blocks({n: _timer(one) for n, one in graphs.items()}, request["rounds"], draws)
    for variant, graph in graphs.items():
        own = found["variants"][variant]["batches"][str(batch)]
        own["blocks_us"] = [round(one, 3) for one in timed[variant]]
        own["kernels"] = _kernels(graph)
    median = sorted(timed[WITHOUT])[len(timed[WITHOUT]) // 2]
    print(f"{batch} requests: {median:.1f} us without winners", flush=True)


def _parity(logits: Any, plain: list[Any], exact: Any) -> Sample:
    """Squared errors against float32 and squares of it, a value for each row of logits; and how far
    the logits are from those without winners."""
    errors: list[float] = []
    norms: list[float] = []
    apart, same, rows = 0.0, 0, 0
    for place, one in enumerate(logits):
        apart = max(apart, float((one - plain[place]).abs().max()))
        same += int((one.argmax(-1) == plain[place].argmax(-1)).sum())
        rows += one.shape[:-1].numel()
        if not isinstance(exact, str):
            errors += (one - exact[place]).square().sum(-1).flatten().tolist()
            norms += exact[place].square().sum(-1).flatten().tolist()
    return {"errors": errors, "norms": norms, "apart": apart, "same": same, "rows": rows}


def _timer(graph: Any) -> Callable[[int], float]:
    def timed(replays: int) -> float:
        """Mean microseconds of one replay."""
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(replays):
            graph.replay()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) * 1000 / replays

    return timed


def _kernels(graph: Any) -> dict[str, tuple[int, float]]:
    """Launches and microseconds of each kernel in one replay."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        graph.replay()
        torch.cuda.synchronize()
    events = profiled.key_averages()
    return {
        e.key: (e.count, round(float(e.self_device_time_total), 3))
        for e in events
        if e.self_device_time_total
    }
