"""A fast way to note stores of whole blocks for the check for races between blocks."""

from __future__ import annotations

import numpy as np

from astra_vgpu.numpy_engine.address_spaces import BufferRegion, Site
from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.numpy_engine.frame import Active, Frame


def claim_rows(f: Frame, site: Site, region: BufferRegion, active: Active) -> bool:
    """Before a store: notes it where each block stores to contiguous, untouched places at even
    distances, which is common and can be done fast. False otherwise."""
    block_races, cells = f.block_races, region.buffer.cells
    if block_races is None or cells is None:
        return True
    whole = active.dense and region.chosen is None and site.size == 1 << block_races.granule_bits
    if not whole or cells.readers is not None:
        return False
    index = region.index.reshape(f.shape)
    firsts = index[:, 0]
    step = int(firsts[1] - firsts[0]) if firsts.size > 1 else index.shape[1]
    if step < index.shape[1] or not (np.diff(index, axis=1) == 1).all():
        return False
    if firsts.size > 2 and not (np.diff(firsts) == step).all():
        return False
    skipped = -region.buffer.address % site.size > 0
    mine = _rows_of(cells.writers, int(firsts[0]) + skipped, step, f.shape)
    if mine.any():
        return False
    if cells.adders is not None:
        sums = _rows_of(cells.adders, int(firsts[0]) + skipped, step, f.shape)
        if sums.any():
            return False
    number = np.int64(block_races.number(site.instruction))
    stamps = ((f.blocks + 1) << np.int64(block_races.site_bits) | number).astype(np.uint32)
    mine[:] = stamps[:, None]
    if cells.writer_threads is not None:
        threads = _rows_of(cells.writer_threads, int(firsts[0]) + skipped, step, f.shape)
        threads[:] = np.arange(f.shape[1], dtype=np.uint16)
    if cells.writer_times is not None and block_races.order is not None:
        times = _rows_of(cells.writer_times, int(firsts[0]) + skipped, step, f.shape)
        times[:] = block_races.order.now
    return True


def _rows_of(items: Array, first: int, step: int, shape: tuple[int, int]) -> Array:
    """A view: row k begins at item first + k * step."""
    size = items.itemsize
    return np.lib.stride_tricks.as_strided(items[first:], shape, (step * size, size))
