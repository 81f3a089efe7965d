"""The check for bulk copies of what the launch stored itself, on arrays of lanes.

The rules are in memory/proxy_fences.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.numpy_engine.address_spaces import BufferRegion, Site
from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.numpy_engine.frame import Active, Frame, Mask
from astra_vgpu.types import WARP_LANES


def watches(f: Frame, region: BufferRegion) -> bool:
    """Whether stores to this buffer are of interest."""
    return f.proxy_fences is not None and f.proxy_fences.watches(region.buffer)


def stored(
    f: Frame,
    site: Site,
    region: BufferRegion,
    addresses: Array,
    active: Active,
    changes: Mask | bool = True,
) -> None:
    """Notes a store or an update by these lanes. changes: which of the region's accesses change
    what is there."""
    if f.proxy_fences is None or not watches(f, region):
        return
    rows, threads = np.nonzero(active.mask)
    at = np.broadcast_to(addresses.reshape(-1), rows.shape)
    if region.chosen is not None and addresses.size == active.count:
        rows, threads, at = rows[region.chosen], threads[region.chosen], at[region.chosen]
    among = np.broadcast_to(changes, rows.shape)
    if among.any():
        warps = threads[among] // WARP_LANES
        f.proxy_fences.store(region.buffer, f.blocks[rows[among]], warps, at[among], site.size)


def fenced(f: Frame, active: Active) -> None:
    """Notes fence.proxy.async for global memory."""
    if f.proxy_fences is not None and active.count:
        f.proxy_fences.fence(*_warps(f, active.mask))


def learned(f: Frame, lanes: Mask, *, of_blocks: bool = False) -> None:
    """Notes that these lanes' warps may have learned what others stored. of_blocks: of other blocks
    too."""
    if f.proxy_fences is not None and lanes.any():
        f.proxy_fences.learn(*_warps(f, lanes), of_blocks=of_blocks)


def _warps(f: Frame, lanes: Mask) -> tuple[NDArray[np.int64], Mask]:
    """Blocks with any of these lanes, and which of their warps have some."""
    warps = np.asarray(lanes.reshape(lanes.shape[0], -1, WARP_LANES).any(axis=2))
    rows = np.flatnonzero(np.asarray(warps.any(axis=1)))
    return f.blocks[rows], warps[rows]
