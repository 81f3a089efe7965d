"""All-reduces of others, each followed by the kernel of fused_add_rmsnorm's baseline.

A rival that this machine does not have is left out, and a line on stderr says why. Inputs lie where
each rival reads them without a copy: in symmetric memory, or in buffers that it knows.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from astra_chat.tools.runners.ranks.checking import Rank, Shared, placed
from astra_chat.tools.runners.ranks.timing import Timing
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case
from lab.ranks.messages import LabRequest

NCCL, ONE_SHOT, SGLANG = "nccl", "symm_mem_one_shot", "sglang_custom"
MOST_BYTES = 2**21
"""Bytes of the largest input."""
RANK_DATA_BYTES = 8 * 2**20
"""What SGLang's all-reduce wants for its tables."""
Reduce = Callable[[torch.Tensor], tuple[torch.Tensor, Callable[[], torch.Tensor]]]
"""From an input: the input where the rival reads it, and what returns the sum."""


class BesideRivals(Timing):
    """Samples of the kernel, the baseline and all rivals by turns."""

    def __init__(self, task: Task, asked: LabRequest, rank: Rank, shared: Shared) -> None:
        super().__init__(task, asked, rank, shared)
        self._norm = asked.norm
        meeting = f"file://{asked.meeting}"
        dist.init_process_group(
            "nccl", meeting, rank=asked.rank, world_size=asked.ranks, device_id=rank.device
        )
        dist.all_reduce(torch.zeros(1, device=rank.device))
        rank.finish()
        made: dict[str, Callable[[], Reduce]] = {
            NCCL: lambda: _nccl,
            ONE_SHOT: self._symmetric_memory,
            SGLANG: self._sglang,
        }
        self._rivals = {name: found for name, make in made.items() if (found := _tried(name, make))}

    def calls(self, case: Case, number: int) -> dict[str, Callable[[], Any]]:
        """The judge's own sides, and each rival with the norm behind it."""
        calls = super().calls(case, number)
        assert self._norm is not None
        made, plan = self.made(case, number), self._norm.plans[number]
        for name, rival in self._rivals.items():
            mine = self.mine(made).to(self.rank.device)
            given, reduce = rival(mine)
            total = reduce()
            self.rank.finish()
            self._require_sum(name, total, made)
            given.copy_(mine)
            others = {n: placed(made[n], self.rank.device) for n in ("residual", "weight")}
            norm = self.rank.bound(self._norm, plan, {"input": reduce(), **others})
            calls[name] = _followed(reduce, norm)
        return calls

    def _require_sum(self, name: str, total: torch.Tensor, made: dict[str, torch.Tensor]) -> None:
        """Raises RuntimeError where a rival's sum is wrong: its time would say nothing."""
        exact = made[self.ranks.shared.arg.name].to(self.rank.device).double().sum(dim=0)
        off = (total.double() - exact).abs().max() / exact.abs().max()
        if not float(off) < 0.02:
            raise RuntimeError(f"{name} gives a wrong sum: off by {float(off):.3g} of the largest")

    def _symmetric_memory(self) -> Reduce:
        """PyTorch's one-shot all-reduce. Its multicast is off (ranks/group.py)."""
        memory = importlib.import_module("torch.distributed._symmetric_memory")
        group = dist.group.WORLD.group_name  # type: ignore[union-attr]
        room = memory.empty(MOST_BYTES // 2, dtype=torch.bfloat16, device=self.rank.device)
        memory.rendezvous(room, group)
        operator: Any = torch.ops.symm_mem.one_shot_all_reduce

        def made(mine: torch.Tensor) -> tuple[torch.Tensor, Callable[[], torch.Tensor]]:
            given = room[: mine.numel()].view(mine.shape)
            given.copy_(mine)
            out = torch.empty_like(mine)
            into = getattr(torch.ops.symm_mem, "one_shot_all_reduce_out", None)
            if into is not None:
                return given, lambda: into(given, "sum", group, out)
            return given, lambda: out.copy_(operator(given, "sum", group))

        return made

    def _sglang(self) -> Reduce:
        """SGLang's custom all-reduce on a buffer that it knows."""
        kernels = importlib.import_module("sgl_kernel.allreduce")
        table = torch.empty(RANK_DATA_BYTES, dtype=torch.uint8, device=self.rank.device)
        _, signals = self._exchanged("signals", kernels.meta_size() + MOST_BYTES)
        handle = kernels.init_custom_ar(signals, table, self.asked.rank, True)
        room, inputs = self._exchanged("inputs of SGLang", MOST_BYTES)
        kernels.register_buffer(handle, inputs)
        self._kept = table

        def made(mine: torch.Tensor) -> tuple[torch.Tensor, Callable[[], torch.Tensor]]:
            given = room[: mine.numel() * 2].view(torch.bfloat16).view(mine.shape)
            given.copy_(mine)
            out = torch.empty_like(mine)

            def reduce() -> torch.Tensor:
                kernels.all_reduce(handle, given, out, 0, 0)
                return out

            return given, reduce

        return made

    def _exchanged(self, name: str, size: int) -> tuple[torch.Tensor, list[int]]:
        """Zeroed memory, and the addresses of all ranks' in this process."""
        own, handle = self.rank.shared(name, size)
        handles: list[Any] = [None] * self.asked.ranks
        dist.all_gather_object(handles, handle)
        addresses = [
            own.data_ptr() if rank == self.asked.rank else self.rank.opened(name, given, size)
            for rank, given in enumerate(handles)
        ]
        return own, addresses


def _nccl(mine: torch.Tensor) -> tuple[torch.Tensor, Callable[[], torch.Tensor]]:
    given = placed(mine, mine.device)

    def reduce() -> torch.Tensor:
        dist.all_reduce(given)
        return given

    return given, reduce


def _followed(reduce: Callable[[], torch.Tensor], norm: Callable[[], None]) -> Callable[[], None]:
    def both() -> None:
        reduce()
        norm()

    return both


def _tried(name: str, make: Callable[[], Reduce]) -> Reduce | None:
    """A rival, or None where any rank lacks it."""
    found, why = None, ""
    try:
        found = make()
    except (ImportError, AttributeError, RuntimeError, TypeError) as lack:
        why = (str(lack).strip().splitlines() or [type(lack).__name__])[0]
    lacks: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(lacks, why)
    if any(lacks):
        print(f"without {name}: {next(filter(None, lacks))}", file=sys.stderr)
        return None
    return found
