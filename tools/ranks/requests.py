"""What each rank of a group is asked: put together here for checks, times and the lab."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from astra_chat.tools.entropy import Seed
from astra_chat.tools.ranks.plans import Planned
from astra_chat.tools.run.rank_messages import RankRequest
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.ranks import of_rank
from astra_chat.tools.types import Case, Device

R = TypeVar("R", bound=RankRequest)


def rank_requests(
    kind: type[R],
    task: Task,
    device: Device,
    ranks: int,
    cases: Sequence[Case],
    sides: Mapping[str, Planned],
    seed: Seed,
    **work: Any,
) -> list[R]:
    """A request for each rank.

    Args:
        kind: The request's type.
        task: What is called.
        device: Of all ranks.
        ranks: How many there are.
        cases: Calls of a whole group, in the order of the plans.
        sides: Launch plans of each kernel, by the name of its side.
        seed: What the ranks draw from.
        work: Further fields, the same for each rank: what it does with the calls.

    Returns:
        The requests by rank.
    """
    return [
        kind(
            folder=task.folder,
            rank=rank,
            ranks=ranks,
            device=device.kind,
            spec=device.spec,
            cases=tuple(of_rank(case, rank) for case in cases),
            sides=tuple(plans.side(name, rank) for name, plans in sides.items()),
            seed=seed.text,
            **work,
        )
        for rank in range(ranks)
    ]
