"""The evidence of an evaluation: hashes of judge, machine code and launch plans, and what the GPU
says about itself."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.evaluation import CaseLaunches, Evidence
from astra_chat.tools.judge_version import judge_sha256
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.system.devices import gpu_handles
from astra_chat.tools.types import Device


def evidence(
    device: Device,
    built: Build,
    plans: Sequence[LaunchPlan],
    baseline: Build | None = None,
    beside: Sequence[LaunchPlan] = (),
) -> Evidence:
    """`plans` of the candidate, and `beside` them those of the baseline for the same cases, where
    it is timed."""
    hashes = [plan.sha256 for plan in beside] or [""] * len(plans)
    return Evidence(
        judge_sha256=judge_sha256(),
        cubin_sha256=_of_file(built),
        baseline_cubin_sha256=_of_file(baseline) if baseline else "",
        plans=tuple(
            CaseLaunches(
                case=plan.case,
                launches=plan.summary,
                plan_sha256=plan.sha256,
                baseline_plan_sha256=of_baseline,
            )
            for plan, of_baseline in zip(plans, hashes, strict=True)
        ),
        device_facts={fact.name: fact.value for plan in plans for fact in plan.facts},
        gpu=gpu_properties(device.index) if device.kind == "cuda" else {},
    )


@cache
def gpu_properties(index: int) -> dict[str, str]:
    """What NVML says about a GPU that measured; what it does not know is left out."""
    import pynvml

    with contextlib.suppress(pynvml.NVMLError):
        gpu = gpu_handles()[index]
        asked: dict[str, Callable[[], Any]] = {
            "driver": lambda: pynvml.nvmlSystemGetDriverVersion(),
            "cuda_driver": lambda: pynvml.nvmlSystemGetCudaDriverVersion_v2(),
            "memory_bytes": lambda: pynvml.nvmlDeviceGetMemoryInfo(gpu).total,
            "ecc": lambda: pynvml.nvmlDeviceGetEccMode(gpu)[0],
            "max_sm_clock_mhz": lambda: pynvml.nvmlDeviceGetMaxClockInfo(gpu, pynvml.NVML_CLOCK_SM),
            "max_memory_clock_mhz": lambda: pynvml.nvmlDeviceGetMaxClockInfo(
                gpu, pynvml.NVML_CLOCK_MEM
            ),
            "power_limit_mw": lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu),
        }
        properties = dict[str, str]()
        for name, ask in asked.items():
            with contextlib.suppress(pynvml.NVMLError):
                properties[name] = str(ask())
        return properties
    return {}


def _of_file(built: Build) -> str:
    return hashlib.sha256(built.cubin.read_bytes()).hexdigest()
