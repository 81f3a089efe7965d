"""One rank on a real GPU: memory that peers open by CUDA IPC, launch plans, delays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from random import Random
from types import SimpleNamespace
from typing import Any

import torch
from cuda.bindings import driver

from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.run.rank_messages import RankSide
from astra_chat.tools.runners.cuda_plans import LoadedCubin, bind, call

GRANULE = 2**21
"""Bytes of which shared memory is a multiple: no two allocations share what a handle stands for."""
HANDLE_BYTES = 64
LAZY_PEER_ACCESS = 1
"""CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS: peer access is enabled where it is not yet."""
CYCLES_PER_US = 1500
"""About the clock of a GPU: delays need not be exact."""


class CudaRank:
    """The GPU whose number is the rank's."""

    def __init__(self, rank: int) -> None:
        """Raises torch's RuntimeError where there is no such GPU."""
        self.device = torch.device("cuda", rank)
        torch.cuda.set_device(self.device)
        torch.zeros(1, device=self.device)
        self._cubins: dict[str, LoadedCubin] = {}

    def shared(self, name: str, size: int) -> tuple[torch.Tensor, str]:
        """Allocates memory for peers, zeroed.

        Args:
            name: What it is for.
            size: Its bytes.

        Returns:
            It as uint8 [size], and the handle by which other processes open it.
        """
        address = int(call("cuMemAlloc", -(-size // GRANULE) * GRANULE))
        described = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}
        tensor = torch.as_tensor(
            SimpleNamespace(__cuda_array_interface__=described), device=self.device
        )
        tensor.zero_()
        handle = call("cuIpcGetMemHandle", address)
        return tensor, ctypes.string_at(handle.getPtr(), HANDLE_BYTES).hex()

    def opened(self, name: str, handle: str, size: int) -> int:
        """Returns the address of a peer's memory in this process. Raises DriverError where the
        GPUs cannot reach each other's memory."""
        given = driver.CUipcMemHandle()
        ctypes.memmove(given.getPtr(), bytes.fromhex(handle), HANDLE_BYTES)
        return int(call("cuIpcOpenMemHandle", given, LAZY_PEER_ACCESS))

    def bound(
        self, side: RankSide, plan: LaunchPlan, tensors: Mapping[str, torch.Tensor]
    ) -> Callable[[], None]:
        """Returns what puts the plan's launches on the current stream, over these arguments. It
        keeps them: a capture of a graph frees memory that nobody holds."""
        if side.name not in self._cubins:
            self._cubins[side.name] = LoadedCubin(side.cubin.read_bytes())
        addresses = {name: tensor.data_ptr() for name, tensor in tensors.items()}
        enqueue = bind(self._cubins[side.name], plan, addresses, Random(0))
        current: Any = torch.cuda.current_stream

        def run(kept: Mapping[str, torch.Tensor] = tensors) -> None:
            enqueue(current().cuda_stream)

        return run

    def pause(self, us: float) -> None:
        """Delays what follows on the stream."""
        sleep: Any = torch.cuda._sleep
        sleep(int(us * CYCLES_PER_US))

    def finish(self) -> None:
        """Waits for the stream. Raises torch's RuntimeError for a kernel's fault."""
        torch.cuda.synchronize()

    def done(self) -> None:
        """Tells nobody: the group sees when a rank ends."""
