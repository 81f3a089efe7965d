"""What an algorithm costs by the rates of the GPU: lines by which a plan reckons, and can cite."""

from __future__ import annotations

from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import AnyTime, Device, Timed
from astra_chat.tools.virtual_gpu.adapter import FITTED, second_launch_us
from astra_vgpu.ground.gpu_specs import SPECS, GpuSpec

MOST_CASES = 6
"""Cases with lines of their own, at most: those of greatest weight."""


def prices_text(task: Task, timed: Timed, device: Device) -> str:
    """Prices of launches, loads, results and bytes, then what each case needs at least, with its
    arithmetic; "" for a GPU whose rates are not known."""
    gpu = SPECS.get(device.spec)
    if gpu is None:
        return ""
    numbered = list(enumerate(timed.cases, 1))
    heaviest = sorted(numbered, key=lambda one: -one[1].weight)[:MOST_CASES]
    lines = _prices(gpu)
    lines += [_needs(task, number, time, gpu) for number, time in sorted(heaviest)]
    return "\n".join(f"- {line}" for line in lines)


def _prices(gpu: GpuSpec) -> list[str]:
    load_us, l2_us = (
        FITTED.load * cycles / gpu.clocks_per_us
        for cycles in (gpu.dram_latency_cycles, gpu.l2_latency_cycles)
    )
    return [
        f"launch: {second_launch_us(gpu):.1f} us for each launch after the first, including"
        " memsets and copies",
        f"round of loads that waits for the previous one: {load_us:.2f} us from DRAM,"
        f" {l2_us:.2f} us from L2",
        f"chain: 1,000 cycles of dependent instructions / {gpu.clocks_per_us:,.0f} cycles per us"
        f" = {1000 / gpu.clocks_per_us:.2f} us",
        f"one of {gpu.sms} SMs: {gpu.l2_bytes_per_clock} bytes per clock from L2 ="
        f" {gpu.l2_bytes_per_clock * gpu.clocks_per_us / 1e6:.2f} MB per us, and"
        f" {gpu.schedulers_per_sm} warp instructions per clock",
    ]


def _needs(task: Task, number: int, time: AnyTime, gpu: GpuSpec) -> str:
    """The least bytes and the operations of a case, each over its rate."""
    moved, flops = task.least_bytes(time.case), task.flops_of(time.case)
    rates = [f"{_us(flops, gpu.fp32_flops)} at {gpu.fp32_flops / 1e12:.0f} T per second in float32"]
    if task.dtypes and any(name in ("float16", "bfloat16") for name in task.dtypes):
        tensor = f"{gpu.tensor_flops / 1e12:,.0f} T on tensor cores"
        rates.append(f"{_us(flops, gpu.tensor_flops)} at {tensor}")
    return (
        f"case {number}: at least {moved / 1e6:.3g} MB / {gpu.dram_bytes_per_s / 1e12:.1f} TB per"
        f" second = {_us(moved, gpu.dram_bytes_per_s)} (a kernel reaches"
        f" {gpu.dram_reachable:.0%} of that rate); {flops:.3g} operations = {' or '.join(rates)}"
    )


def _us(amount: float, a_second: float) -> str:
    return f"{amount / a_second * 1e6:.3g} us"
