"""Packets that L1 passes to L2 for stores (lowering/store_merging.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.lowering.store_merging import ALONE, FEW_TURNS
from astra_vgpu.numpy_engine.address_spaces import Site
from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.numpy_engine.frame import Active
from astra_vgpu.types import LINE_BYTES, SECTOR_BYTES, WARP_LANES

SECTOR_SHIFT = np.uint64(SECTOR_BYTES.bit_length() - 1)
LINE_SHIFT = np.uint64((LINE_BYTES // SECTOR_BYTES).bit_length() - 1)
"""Shift that turns the number of a sector into that of its line."""


def packets_of(
    site: Site, address: Array, active: Active, shape: tuple[int, int]
) -> tuple[int, int]:
    """Returns the packets of a store by itself, and three times those of the run that begins
    here."""
    if address.size == 1:
        address = np.broadcast_to(address, shape)
    lanes = active.mask.reshape(-1, WARP_LANES).sum(axis=1)
    nbytes = site.size * lanes[lanes > 0]
    rows = [
        _in_order(per_warp(address + np.uint64(step % (1 << 64)), active, shape) >> SECTOR_SHIFT)
        for step in site.run or ALONE
    ]
    each = [_counted(sectors, nbytes) for sectors in rows]
    alone = int(each[0].sum())
    if len(site.run) < 2:
        return alone, 3 * alone * len(site.run)
    thirds = 3 * _counted(_in_order(np.concatenate(rows, axis=1)), nbytes * len(rows))
    if len(site.run) * max(1, site.size // 4) > FEW_TURNS:
        thirds = np.maximum(thirds, 2 * np.sum(each, axis=0))
    return alone, int(thirds.sum())


def packets_in(sectors: Any, lines: Any, nbytes: Any) -> Any:
    """Packets of stores of `nbytes` bytes in all: sectors count as filled if the bytes are more
    than three quarters of theirs."""
    return 2 * lines + sectors * np.where(4 * nbytes > 3 * SECTOR_BYTES * sectors, 1, 2)


def per_warp(value: Array, active: Active, shape: tuple[int, int]) -> Array:
    """Rows of 32 lanes of the warps that take part; lanes that do not repeat another's value."""
    rows = np.ascontiguousarray(np.broadcast_to(value, shape)).reshape(-1, WARP_LANES)
    if active.dense:
        return rows
    mask = active.mask.reshape(-1, WARP_LANES)
    there = mask.any(axis=1)
    rows, mask = rows[there], mask[there]
    highest = np.where(mask, rows, 0).max(axis=1, keepdims=True)
    return np.where(mask, rows, highest)


def _in_order(rows: Array) -> Array:
    falls = rows[:, 1:] < rows[:, :-1]
    return np.sort(rows, axis=1) if falls.any() else rows


def _counted(sectors: Array, nbytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Packets of each row of sectors, in order there."""
    packets = packets_in(_different(sectors), _different(sectors >> LINE_SHIFT), nbytes)
    return np.asarray(packets, np.int64)


def _different(rows: Array) -> NDArray[np.int64]:
    """How many different numbers each row has, in order there."""
    return np.asarray(np.count_nonzero(rows[:, 1:] != rows[:, :-1], axis=1) + 1)
