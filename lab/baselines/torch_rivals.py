"""Operators of PyTorch as rivals: what an engine runs where it has no kernel of its own.

Their kernels are cuBLAS's and PyTorch's: no launch plan says what they launch, so the judge's
runner cannot time them. A process of its own (torch_child.py) times both sides the same way.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from astra_chat.tools.build.hosted import hosted_library
from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.system.devices import gpu_uuid
from astra_chat.tools.system.gpu_lock import lease
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.timing.gpu_samples import contract_limit_us
from astra_chat.tools.types import Case, Device, MeasuredTime
from astra_vgpu.ground.errors import AstraError

CHILD = "lab.baselines.torch_child"
TIMEOUT_S = 300.0
LAST_CHARACTERS = 300
HALF_WIDTHS = 2.145
"""Student's t of a 95 % interval over 15 blocks."""


@dataclass(frozen=True)
class TorchRival:
    """An operator of torch_child.py, by its name there."""

    name: str
    what: str


IN_TORCH: Mapping[str, tuple[TorchRival, ...]] = {
    "gemv_bf16": (
        TorchRival("torch-linear", "torch.nn.functional.linear: cuBLAS"),
        TorchRival("torch-mm", "torch.mm with out=: cuBLAS"),
    ),
    "fused_add_rmsnorm_batch_invariant": (
        TorchRival("torch-native", "RMSNorm operator by operator, like SGLang's forward_native"),
    ),
    "router_gate": (
        TorchRival("torch-router", "torch.mm with fp32 results, cuBLAS; the choice by operators"),
    ),
    "gqa_paged_decode": (
        TorchRival("torch-sdpa", "pages gathered, then scaled_dot_product_attention"),
    ),
    "moe_experts_small": (
        TorchRival("torch-fused-moe", "SGLang's Triton fused_moe, tuned where SGLang has a file"),
    ),
    "linear_cross_entropy": (
        TorchRival("torch-cross-entropy", "F.linear and F.cross_entropy, all logits in bfloat16"),
    ),
}
"""Operators by task. In batch-invariant mode SGLang replaces the mean of forward_native by a Triton
kernel; here it is PyTorch's."""


def timed_beside_torch(
    task: Task,
    operator: str,
    build: Build,
    rows: Sequence[tuple[Case, float]],
    device: Device,
    stop: Stop,
) -> tuple[MeasuredTime, ...] | str:
    """The operator as the baseline of a build of ours, or why there are no times. Raises
    AstraError where the process fails."""
    with tempfile.TemporaryDirectory(prefix="astra-torch-") as scratch:
        request, answer = Path(scratch) / "request.json", Path(scratch) / "answer.json"
        asked = {
            "task": str(task.folder),
            "library": str(hosted_library(build)),
            "operator": operator,
            "cases": [case.model_dump(mode="json") for case, _ in rows],
        }
        request.write_text(json.dumps(asked))
        work = f"{operator} beside {task.name}"
        with lease(gpu_uuid(device.index), work, True, stop, lambda _: None):
            _run([sys.executable, "-m", CHILD, str(request), str(answer)], work)
        answers: list[dict[str, Any]] = json.loads(answer.read_text())
    for (case, _), one in zip(rows, answers, strict=True):
        if one["wrong"]:
            return f"wrong on {case.label}: {one['wrong']}"
    time_of = partial(measured, task, device)
    return tuple(time_of(*row, one) for row, one in zip(rows, answers, strict=True))


def measured(
    task: Task, device: Device, case: Case, weight: float, found: Mapping[str, Any]
) -> MeasuredTime:
    """Times of a case from the blocks of the child: medians, and the interval of the blocks'
    ratios."""
    theirs, ours = (statistics.median(block[side] for block in found["cold_us"]) for side in (0, 1))
    logs = [math.log(a / b) for a, b in found["cold_us"]]
    ratio = math.exp(statistics.fmean(logs))
    wide = math.exp(HALF_WIDTHS * statistics.stdev(logs) / math.sqrt(len(logs)))
    limit = contract_limit_us(task, case, device)
    warm = [statistics.median(block[side] for block in found["warm_us"]) for side in (0, 1)]
    return MeasuredTime(
        case=case,
        weight=weight,
        baseline_us=theirs,
        median_us=ours,
        ratio=ratio,
        ratio_low=ratio / wide,
        ratio_high=ratio * wide,
        limit_us=limit,
        percent_of_limit=100 * limit / ours,
        baseline_event_us=found["event_us"][0],
        event_us=found["event_us"][1],
        sm_clock_mhz=0,
        note="timed together with PyTorch in one process, not by the judge",
        baseline_warm_us=warm[0],
        warm_us=warm[1],
        blocks=len(logs),
    )


def _run(command: Sequence[str], work: str) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise AstraError(f"{work} took more than {TIMEOUT_S:.0f} s") from None
    if done.returncode:
        raise AstraError(f"{work} failed: {done.stderr.strip()[-LAST_CHARACTERS:]}")
