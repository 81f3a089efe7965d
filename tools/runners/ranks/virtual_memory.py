"""One rank on a virtual GPU of its own, in a process of its own; memory of peers is theirs.

Device memory of the virtual GPU is host memory at its own address: what other processes share with
this one, its kernels reach as a GPU reaches its peers'. Ranks interleave as their processes do.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from random import Random

import numpy as np
import torch

from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.plan.virtual_replay import VirtualReplayer
from astra_chat.tools.run.rank_messages import RankSide
from astra_chat.tools.runners.ranks.drawn_pauses import stopped_at_times
from astra_chat.tools.virtual_gpu.adapter import VirtualGpu
from astra_vgpu.ground.gpu_specs import spec as spec_of

NEVER = 1 << 60
"""Instructions after which a wait counts as endless: the group's limit of time ends it before."""


class LaunchFailed(RuntimeError):
    """A launch of a plan returned an error."""


@dataclass(frozen=True)
class Mapped:
    """Memory that ranks share."""

    name: str
    array: np.ndarray[tuple[int], np.dtype[np.uint8]]
    of_peer: bool


def bytes_of(tensor: torch.Tensor) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """A contiguous tensor's memory: uint8 [bytes]."""
    found: np.ndarray[tuple[int], np.dtype[np.uint8]] = tensor.flatten().view(torch.uint8).numpy()
    return found


class VirtualRank:
    """A virtual GPU."""

    def __init__(self, spec: str, stops: Iterator[Random | None]) -> None:
        """`spec`: the GPU that it stands for. Raises BadInput for an unknown one. `stops`: for each
        call, what draws its stops, or None where it has none."""
        self._stops = stops
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
        os.ftruncate(file, size)
        array = self._mapped(name, file, size, of_peer=False)
        return torch.from_numpy(array), f"/proc/{os.getpid()}/fd/{file}"

    def opened(self, name: str, handle: str, size: int) -> int:
        """Returns the address of a peer's memory in this process."""
        file = os.open(handle, os.O_RDWR)
        return int(self._mapped(f"peer's {name}", file, size, of_peer=True).ctypes.data)

    def _mapped(
        self, name: str, file: int, size: int, *, of_peer: bool
    ) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        array = np.frombuffer(mmap.mmap(file, size), np.uint8)
        self.mapped.append(Mapped(name, array, of_peer))
        self._gpu.register(array, name)
        return array

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
            draw = next(self._stops)
            with stopped_at_times(draw) if draw else nullcontext():
                status = replayer.replay(plan, addresses, Random(0))
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
        """Delays what follows."""
        time.sleep(us * 1e-6)

    def finish(self) -> None:
        """Nothing is left to wait for: every launch has ended when it returns."""
