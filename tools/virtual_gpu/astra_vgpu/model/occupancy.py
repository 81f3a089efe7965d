"""Occupancy: blocks per SM, and the CUDA error of a launch that a GPU refuses.

Occupancy follows the allocation units of NVIDIA's CUDA occupancy calculator for compute capability
8.0 to 9.0. The errors were observed on an H200 with CUDA 13.0.
"""

from __future__ import annotations

from astra_vgpu.ground.gpu_specs import GpuSpec
from astra_vgpu.types import WARP_LANES, Dim3

INVALID_VALUE = 1
LAUNCH_OUT_OF_RESOURCES = 701
COOPERATIVE_TOO_LARGE = 720

MAX_BLOCK = Dim3(1024, 1024, 64)
MAX_THREADS = 1024
MAX_GRID = Dim3(2**31 - 1, 65535, 65535)

_REGISTER_UNIT = 256
"""Registers are given to a warp in this many."""
_SHARED_UNIT = 128


def blocks_per_sm(spec: GpuSpec, *, registers: int, shared_bytes: int, threads: int) -> int:
    """Blocks that an SM holds at once: registers a thread, all shared bytes and threads a block."""
    if not 1 <= threads <= MAX_THREADS or shared_bytes > spec.shared_per_block_optin:
        return 0
    warps = -(-threads // WARP_LANES)
    shared = _round_up(shared_bytes + spec.shared_reserved_per_block, _SHARED_UNIT)
    return min(
        spec.blocks_per_sm,
        spec.threads_per_sm // (warps * WARP_LANES),
        _warps_by_registers(spec, registers) // warps,
        spec.shared_per_sm // shared,
    )


def launch_error(
    spec: GpuSpec,
    grid: Dim3,
    block: Dim3,
    *,
    registers: int,
    static_shared_bytes: int,
    dynamic_shared_bytes: int,
    max_dynamic_shared_bytes: int,
    max_threads: int,
    at_once: int | None = None,
) -> int:
    """The cudaError_t of a launch, 0 if a GPU takes it; in the order in which a driver looks.

    `max_dynamic_shared_bytes` is what the kernel may have (48 KB less its static shared memory
    unless it opted in), `max_threads` its __launch_bounds__ or 1024, `at_once` the blocks that an
    SM holds of a cooperative launch, which has to run as a whole.
    """
    if not _within(grid, MAX_GRID) or not _within(block, MAX_BLOCK) or block.count > MAX_THREADS:
        return INVALID_VALUE
    if block.count > max_threads:
        return INVALID_VALUE
    if at_once is not None and grid.count > at_once * spec.sms:
        return COOPERATIVE_TOO_LARGE
    if dynamic_shared_bytes > max_dynamic_shared_bytes:
        return INVALID_VALUE
    if static_shared_bytes + dynamic_shared_bytes > spec.shared_per_block_optin:
        return INVALID_VALUE
    if _warps_by_registers(spec, registers) * WARP_LANES < block.count:
        return LAUNCH_OUT_OF_RESOURCES
    return 0


def _within(size: Dim3, most: Dim3) -> bool:
    pairs = ((size.x, most.x), (size.y, most.y), (size.z, most.z))
    return all(1 <= extent <= limit for extent, limit in pairs)


def _warps_by_registers(spec: GpuSpec, registers: int) -> int:
    """Each scheduler has its own share of the registers."""
    per_warp = max(_round_up(registers * WARP_LANES, _REGISTER_UNIT), _REGISTER_UNIT)
    per_scheduler = spec.registers_per_sm // spec.schedulers_per_sm
    return per_scheduler // per_warp * spec.schedulers_per_sm


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
