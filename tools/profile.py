"""Why it takes that long: Nsight Compute's metrics on a GPU, counters and a model without one."""

from __future__ import annotations

import csv
import io
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from astra_chat.tools.build import Build
from astra_chat.tools.errors import EnvironmentLack
from astra_chat.tools.measured import case_limit_us
from astra_chat.tools.oracle import Truth
from astra_chat.tools.process import StepMemory, StepTimeout, run_limited
from astra_chat.tools.runner import Runner
from astra_chat.tools.toolkit import find_tool
from astra_chat.tools.types import AnyTime, Metric, Profile, TimedOut

NCU_TIMEOUT_S = 120.0
NCU_METRICS: dict[str, str] = {
    "gpu__time_duration.sum": "device time of the launch",
    "dram__bytes_read.sum": "bytes read from DRAM",
    "dram__bytes_write.sum": "bytes written to DRAM",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "DRAM throughput, of its peak",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": "L2 throughput, of its peak",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "SM throughput, of its peak",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy reached",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "issue slots used",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": "global load requests",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "32-byte sectors of global loads",
    "launch__registers_per_thread": "registers per thread",
    "launch__waves_per_multiprocessor": "waves of blocks per SM",
    "smsp__inst_executed.sum": "warp instructions",
}
BUSY_PERCENT = 60.0
"""A unit above this share of its peak is what limits the kernel; below, latency does."""


def profile_cuda(runner: Runner, build: Build, truth: Truth) -> Profile | TimedOut:
    """One call under Nsight Compute. Raises EnvironmentLack without ncu or its permission."""
    ncu = find_tool("ncu")
    with (
        tempfile.TemporaryDirectory(prefix="astra-ncu-") as scratch,
        runner.request(build, [truth], "profile") as (request, folders),
    ):
        sheet, asked = Path(scratch) / "ncu.csv", Path(scratch) / "request.json"
        asked.write_text(json.dumps({"fd": -1, "nonce": "", "request": request}))
        command = [
            str(ncu), "--clock-control", "none", "--profile-from-start", "off", "--csv",
            "--page", "raw", "--print-units", "base", "--metrics", ",".join(NCU_METRICS),
            "--log-file", str(sheet), sys.executable, "-m", "astra_chat.tools.children.cuda",
        ]  # fmt: skip
        shell = ["/bin/sh", "-c", 'exec "$@" <"$0"', str(asked), *command]
        walls = runner.walls(build, [truth], folders)
        walls = replace(
            walls, network=True, privileges=True, write=(Path(scratch), *walls.write),
            read=(*walls.read, ncu.resolve().parent.parent),
        )  # fmt: skip
        try:
            end = run_limited(
                shell, timeout_s=NCU_TIMEOUT_S, walls=walls, cwd=Path(scratch), stop=runner.stop
            )
        except (StepMemory, StepTimeout):
            return TimedOut(step="profile", limit_s=NCU_TIMEOUT_S)
        text = sheet.read_text(errors="replace") if sheet.is_file() else end.output
    if "ERR_NVGPUCTRPERM" in text + end.output:
        raise EnvironmentLack(
            "Nsight Compute may not read the counters (ERR_NVGPUCTRPERM): run as root, or load the "
            "driver with NVreg_RestrictProfilingToAdminUsers=0"
        )
    metrics = parse_ncu(text)
    if not metrics:
        raise EnvironmentLack(f"Nsight Compute recorded no kernel: {(text + end.output)[-400:]}")
    return _read_ncu(runner, truth, metrics)


def parse_ncu(text: str) -> dict[str, Metric]:
    """Metrics of ncu's raw CSV page by name; counts add up over kernels, shares are averaged."""
    start = text.find('"ID"')
    rows = list(csv.DictReader(io.StringIO(text[start:]))) if start >= 0 else []
    if len(rows) < 2:
        return {}
    units, kernels = rows[0], rows[1:]
    found = {}
    for name, words in NCU_METRICS.items():
        values = [float(row[name].replace(",", "")) for row in kernels if row.get(name)]
        if values:
            value = sum(values) if name.endswith(".sum") else sum(values) / len(values)
            found[name] = Metric(name=name, value=value, unit=units.get(name, ""), words=words)
    return found


def _read_ncu(runner: Runner, truth: Truth, metrics: Mapping[str, Metric]) -> Profile:
    def value(name: str) -> float:
        return metrics[name].value if name in metrics else 0.0

    dram = value("dram__throughput.avg.pct_of_peak_sustained_elapsed")
    l2 = value("lts__throughput.avg.pct_of_peak_sustained_elapsed")
    issue = value("smsp__issue_active.avg.pct_of_peak_sustained_active")
    microseconds = value("gpu__time_duration.sum") / 1e3
    floor = case_limit_us(runner, truth)
    busiest, share = max((("dram", dram), ("l2", l2), ("issue", issue)), key=lambda pair: pair[1])
    bottleneck = busiest if share >= BUSY_PERCENT else "latency"
    why = (
        f"DRAM at {dram:.0f} %, L2 at {l2:.0f} % and issue slots at {issue:.0f} % of their peaks"
        f" in {microseconds:.2f} us under the profiler"
    )
    return Profile(
        basis="measured", case=truth.case, metrics=tuple(metrics.values()), bottleneck=bottleneck,
        why=why, limit_us=floor, percent_of_limit=100 * floor / microseconds,
    )  # fmt: skip


def unprofiled(time: AnyTime, lack: str) -> Profile:
    """What the time over the limit alone says, where Nsight Compute cannot be used."""
    bottleneck = "dram" if time.percent_of_limit >= BUSY_PERCENT else "latency"
    return Profile(
        basis=time.basis, case=time.case, metrics=(), bottleneck=bottleneck,
        why=f"judged by the time over the limit alone: {lack}", limit_us=time.limit_us,
        percent_of_limit=time.percent_of_limit,
    )  # fmt: skip


def profile_virtual(runner: Runner, truth: Truth, report: Mapping[str, Any]) -> Profile:
    """The profile of a case that the virtual GPU ran with counters."""
    found = report["estimate"]
    floor = case_limit_us(runner, truth)
    return Profile(
        basis="estimated", case=truth.case, metrics=tuple(_counter_metrics(report)),
        bottleneck=found["limiter"], why=found["why"], limit_us=floor,
        percent_of_limit=100 * floor / found["us"],
    )  # fmt: skip


def _counter_metrics(report: Mapping[str, Any]) -> list[Metric]:
    """Counters of all launches of the call, scaled to whole grids where a sample ran."""
    totals: dict[str, float] = {}
    instructions = 0.0
    for launch in report["launches"]:
        scale, counters = launch["scale"], launch["counters"]
        instructions += scale * sum(counters["warp_instructions"].values())
        for name, value in counters.items():
            if isinstance(value, int):
                totals[name] = totals.get(name, 0.0) + scale * value
    loads = max(1.0, totals["global_load_requests"])
    stores = max(1.0, totals["global_store_requests"])
    shared = max(1.0, totals["shared_requests"])
    estimate = report["estimate"]
    rows = [
        ("estimated_us", estimate["us"], "us", "estimated device time of the call"),
        ("occupancy", 100 * estimate["occupancy"], "%", "warps an SM can hold, of its maximum"),
        ("waves", estimate["waves"], "", "waves of blocks"),
        ("warp_instructions", instructions, "", "warp instructions"),
        ("lane_efficiency", 100 * totals["lane_instructions"] / max(1.0, 32 * instructions), "%",
         "active lanes per warp instruction"),
        ("global_load_requests", totals["global_load_requests"], "", "global load requests"),
        ("global_load_bytes_per_request", totals["global_load_bytes"] / loads, "byte",
         "bytes a warp asks for at once"),
        ("global_load_sectors_per_request", totals["global_load_sectors"] / loads, "",
         "32-byte sectors a load request touches"),
        ("global_store_sectors_per_request", totals["global_store_sectors"] / stores, "",
         "32-byte sectors a store request touches"),
        ("dram_read_bytes", 32 * totals["unique_load_sectors"], "byte",
         "different sectors read: what a cold L2 fetches"),
        ("dram_write_bytes", 32 * totals["unique_store_sectors"], "byte",
         "different sectors written"),
        ("shared_wavefronts_per_request", totals["shared_wavefronts"] / shared, "",
         "1 is free of bank conflicts"),
        ("barriers", totals["barriers"], "", "block barriers, counted once a warp"),
    ]  # fmt: skip
    return [Metric(name=n, value=float(v), unit=u, words=w) for n, v, u, w in rows]
