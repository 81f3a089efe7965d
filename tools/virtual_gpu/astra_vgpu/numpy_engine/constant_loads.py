"""Loads of constants at computed addresses: how many words the lanes of a warp want."""

from __future__ import annotations

import numpy as np

from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.numpy_engine.frame import Active
from astra_vgpu.numpy_engine.store_packets import per_warp
from astra_vgpu.types import WARP_LANES, Counters


class ConstantLoads:
    """Constant loads of one batch: the constant cache serves a warp word by word."""

    def __init__(self, counters: Counters, shape: tuple[int, int]) -> None:
        """shape: blocks and threads of the batch."""
        self._counters, self._shape = counters, shape
        self._further = np.zeros(shape[0] * shape[1] // WARP_LANES, np.int64)
        """Words beyond the first of each load, by warp."""

    def load(self, size: int, address: Array, active: Active) -> None:
        """size: bytes of a lane's access; of less than a word, the word is what counts."""
        taking = active.mask.reshape(-1, WARP_LANES).any(axis=1)
        different = np.ones(int(np.count_nonzero(taking)), np.int64)
        if address.size > 1:
            width = np.uint64(max(size, 4).bit_length() - 1)
            rows = np.sort(per_warp(address >> width, active, self._shape), axis=1)
            different += np.count_nonzero(np.diff(rows, axis=1), axis=1)
        self._counters.constant_load_requests += different.size
        self._counters.constant_load_words += int(different.sum())
        self._further[taking] += different - 1

    def finish(self) -> None:
        """Adds the most of any one warp to the counters."""
        most = max(self._counters.critical_path_constant_words, int(self._further.max()))
        self._counters.critical_path_constant_words = most
