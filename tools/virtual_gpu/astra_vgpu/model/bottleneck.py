"""The bottleneck of a launch as text: the limiting term with the counters behind it."""

from __future__ import annotations

from collections.abc import Mapping

from astra_vgpu.model.issue import machine_path
from astra_vgpu.model.traffic import Traffic
from astra_vgpu.types import SECTOR_BYTES, LaunchReport


def limited_by(
    report: LaunchReport, moved: Traffic, terms: Mapping[str, float], limiter: str, turns: float
) -> str:
    """terms: us by unit, `limiter` the largest of them; turns: blocks that follow each other where
    one is resident. "alone": what the unit would take if nothing else cost anything."""
    c = report.counters
    us = f"{terms[limiter]:.2f} us alone"
    blocks = report.launch.grid.count
    scale = blocks / max(report.blocks_run, 1)
    executed = c.machine_instructions or c.warp_instructions
    instructions = executed.total() * scale
    in_turns = f", in {turns:.3g} turns" if turns > 1 else ""
    rounds = c.dependent_load_rounds
    waits = {0: "no load", 1: "a load"}.get(rounds, f"{rounds} loads one after the other")
    slept_us = c.critical_path_sleep_ns * 1e-3
    slept = f" and sleeps {slept_us:.3g} us" if slept_us else ""
    loads, stores = max(1, c.global_load_requests), max(1, c.global_store_requests)
    return {
        "dram": f"{(moved.l2_misses + moved.dram_stores) * SECTOR_BYTES / 1e6:.2f} MB"
        f" to and from DRAM take {us}",
        "l2": f"{c.global_load_sectors / loads:.1f} sectors a load and"
        f" {c.global_store_sectors / stores:.1f} a store request through L2 take {us}",
        "issue": f"{instructions:.3g} warp instructions take {us} of issue slots",
        "special_functions": f"{c.special_tenths / 10 * scale:.3g} special-function"
        f" instructions take {us}",
        "lsu": f"{(loads + stores) * scale:.3g} global requests of"
        f" {c.global_load_bytes / loads:.0f} bytes a load take {us} of the load/store units",
        "shared": f"{c.shared_wavefronts / max(1, c.shared_requests):.1f} wavefronts a"
        f" shared-memory request (1 is free of conflicts) take {us}",
        "tensor": f"{c.tensor_tenths / 10 * scale:.3g} products m16n8k16 on tensor cores take {us}",
        "constants": f"{c.constant_load_words / max(1, c.constant_load_requests):.1f} different"
        f" words a load of constants (1 is all lanes alike) take {us}",
        "latency": f"a warp waits for {waits} and runs {machine_path(c):.0f} machine instructions"
        f"{slept}{in_turns}: {us}",
        "atomics": f"{c.atomic_hottest_turns * scale:.3g} turns of atomics on one region"
        f" of L2 wait for each other: {us}",
        "block_start": f"starting {blocks} blocks takes {us}",
    }[limiter]
