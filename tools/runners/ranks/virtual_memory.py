"""One rank on a virtual GPU of its own, in a process of its own; memory of peers is theirs.

Device memory of the virtual GPU is host memory at its own address: what other processes share with
this one, its kernels reach as a GPU reaches its peers'. Ranks interleave as their processes do, and
as drawn stops make them. Behind the memory that kernels reach lies the rank's board (boards.py).
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random

import numpy as np
import torch

from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.plan.virtual_replay import VirtualReplayer
from astra_chat.tools.run.rank_messages import RankSide
from astra_chat.tools.runners.ranks.boards import BOARD_BYTES, DONE, Board, Boards
from astra_chat.tools.runners.ranks.drawn_pauses import StoppingBytes, Stops
from astra_chat.tools.virtual_gpu.adapter import VirtualGpu
from astra_vgpu.ground.gpu_specs import spec as spec_of

NEVER = 1 << 60
"""Instructions after which a wait counts as endless: the group's limit of time ends it before."""
Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]


class LaunchFailed(RuntimeError):
    """A launch of a plan returned an error."""


@dataclass(frozen=True)
class Mapped:
    """Memory that ranks share."""

    name: str
    array: Bytes
    of_peer: bool


def bytes_of(tensor: torch.Tensor) -> Bytes:
    """A contiguous tensor's memory: uint8 [bytes]."""
    found: Bytes = tensor.flatten().view(torch.uint8).numpy()
    return found


def _board_at(size: int) -> int:
    """Where a rank's board begins behind its memory."""
    return -(-size // BOARD_BYTES) * BOARD_BYTES


class VirtualRank:
    """A virtual GPU."""

    def __init__(self, spec: str, stops: Iterator[Random | None]) -> None:
        """`spec`: the GPU that it stands for. Raises BadInput for an unknown one. `stops`: for each
        call, what draws its stops, or None where it has none."""
        self.boards, self._board_of = Boards(), ""
        self._stops = Stops(stops, self.boards)
        self.device = torch.device("cpu")
        self._gpu = VirtualGpu(
            spec_of(spec),
            engine="numpy",
            sample_instructions=None,
            counters=False,
            endless_instructions=NEVER,
        )
        self._kernels: dict[str, VirtualReplayer] = {}
        self.mapped: list[Mapped] = []

    def shared(self, name: str, size: int) -> tuple[torch.Tensor, str]:
        """Allocates memory for peers, zeroed: uint8 [size], and what other processes open it by:
        the file of this process that holds it."""
        file = os.memfd_create(f"rank-{name}")
        os.ftruncate(file, _board_at(size) + BOARD_BYTES)
        first = not self.mapped
        array, board = self._mapped(name, file, size, of_peer=False)
        if first:
            self._board_of = name
            self.boards.own = board
        return torch.from_numpy(array), f"/proc/{os.getpid()}/fd/{file}"

    def opened(self, name: str, handle: str, size: int) -> int:
        """Returns the address of a peer's memory in this process."""
        file = os.open(handle, os.O_RDWR)
        array, board = self._mapped(f"peer's {name}", file, size, of_peer=True)
        if name == self._board_of:
            self.boards.peers.append(board)
        return int(array.ctypes.data)

    def _mapped(self, name: str, file: int, size: int, *, of_peer: bool) -> tuple[Bytes, Board]:
        """A file's memory that kernels reach, and the board behind it."""
        at = _board_at(size)
        memory = mmap.mmap(file, at + BOARD_BYTES)
        array = np.frombuffer(memory, np.uint8, size)
        self.mapped.append(Mapped(name, array, of_peer))
        self._gpu.register(StoppingBytes.of(array, self._stops, file), name)
        return array, np.frombuffer(memory, np.uint64, offset=at)

    def bound(
        self, side: RankSide, plan: LaunchPlan, tensors: Mapping[str, torch.Tensor]
    ) -> Callable[[], None]:
        """Returns what runs the plan's launches over these arguments. It raises Fault and
        PtxUnsupported, and LaunchFailed for an error that CUDA returns."""
        if side.name not in self._kernels:
            self._kernels[side.name] = VirtualReplayer(self._gpu, side.ptx, side.resources)
        replayer = self._kernels[side.name]

        def run() -> None:
            arrays = {n: bytes_of(t) for n, t in tensors.items()}
            addresses = {n: self._gpu.register(array, n) for n, array in arrays.items()}
            self._stops.begin(plan.case.key)
            status = replayer.replay(plan, addresses, Random(0))
            self._stops.end(plan.case.key)
            for address in addresses.values():
                self._gpu.unregister(address)
            if self._gpu.fault is not None:
                raise self._gpu.fault
            if status:
                raise LaunchFailed(f"a launch failed with cudaError_t {status}")

        return run

    def forget_writes(self) -> None:
        """Begins again to note which bytes kernels write."""
        self._gpu.memory.track_writes(True)

    def wrote(self, own: torch.Tensor) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Returns which bytes of this rank's shared memory its kernels wrote: bool [bytes]."""
        return np.array(self._gpu.written(own.data_ptr())[: own.numel()])

    def pause(self, us: float) -> None:
        """Delays what follows until the peers can do no more without it, however long `us` is."""
        self._stops.wait_for_peers()

    def finish(self) -> None:
        """Nothing is left to wait for: every launch has ended when it returns."""

    def done(self) -> None:
        """Tells peers that wait for this rank that it makes no more calls."""
        self.boards.own[DONE] = 1
