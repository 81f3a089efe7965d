"""How far the ranks on virtual GPUs are: each says so in memory that its peers see."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

BOARD_WORDS = 5
BOARD_BYTES = 8 * BOARD_WORDS
STEPS, REPEATED, STOPPED, MET, DONE = range(BOARD_WORDS)
"""Words of a board: accesses of shared memory so far, repeated loads so far, whether the rank
stops, the last point of its program at which it met its peers, whether it has made all calls."""
LOOK_S = 0.0005
"""Time between two looks at peers' boards."""
Board = NDArray[np.uint64]


class Boards:
    """One rank's board, and those of its peers by their numbers."""

    def __init__(self) -> None:
        self.own: Board = np.zeros(BOARD_WORDS, np.uint64)
        self.peers = list[Board]()

    def now(self) -> NDArray[np.uint64]:
        """Words of each peer: uint64 [peers, BOARD_WORDS]."""
        return np.array(self.peers, np.uint64).reshape(-1, BOARD_WORDS)

    def meet(self, point: int) -> None:
        """Returns once all ranks are at this point of their program or beyond it."""
        self.own[MET] = point
        self.wait(point, len(self.peers))

    def wait(self, point: int, peers: int) -> None:
        """Returns once the first `peers` of the peers are there."""
        while (self.now()[:peers, MET] < point).any():
            time.sleep(LOOK_S)
