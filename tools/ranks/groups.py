"""How many ranks a judge has on its device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from astra_chat.tools.system.devices import cuda_device, gpu_handles
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.ranks import RANKS, RanksContract
from astra_chat.tools.types import Case, Device
from astra_vgpu.ground.errors import BadInput, MissingDependency


@dataclass(frozen=True)
class RankNumbers:
    """Numbers of ranks of one judge."""

    checked: tuple[int, ...]
    """Groups in which a candidate is checked."""
    timed: int
    """The group in which it is timed or estimated."""

    def timed_cases(self, weighted: Sequence[tuple[Case, float]]) -> tuple[tuple[Case, float], ...]:
        """Returns those of the group that is timed. Raises BadInput where there is none."""
        found = tuple(one for one in weighted if one[0].dims[RANKS] == self.timed)
        if not found:
            raise BadInput(f"no timed case has ranks = {self.timed}")
        return found


def contract_of(task: Task) -> RanksContract:
    """Returns what the task says of ranks. Raises BadInput where it has none."""
    if task.ranks is None:
        raise BadInput(f"{task.name} is not for several GPUs: its task.toml has no ranks")
    return task.ranks


def numbers_of(task: Task, device: Device) -> RankNumbers:
    """All numbers of the contract that the device allows: virtual GPUs are as many as are asked
    for, and the smallest group is estimated there; of real GPUs the largest group is timed.

    Raises MissingDependency for too few GPUs or GPUs of several kinds.
    """
    numbers = contract_of(task).numbers
    if device.kind == "virtual":
        return RankNumbers(numbers, numbers[0])
    there = gpu_count()
    legal = tuple(number for number in numbers if number <= there)
    if not legal:
        raise MissingDependency(
            f"{task.name} needs at least {numbers[0]} GPUs, but the driver shows {there}:"
            " use --device virtual"
        )
    names = {cuda_device(index).name for index in range(legal[-1])}
    if len(names) > 1:
        found = ", ".join(sorted(names))
        raise MissingDependency(
            f"all ranks must be on GPUs of the same kind, but these are {found}"
        )
    return RankNumbers(legal, legal[-1])


def gpu_count() -> int:
    """Returns how many GPUs the driver shows."""
    import pynvml

    try:
        return len(gpu_handles())
    except pynvml.NVMLError:
        return 0
