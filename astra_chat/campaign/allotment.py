"""What a run may spend of the campaign's budget: as much as it may spend itself, or it is not
started; where that is not limited, all that is left."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from astra_chat.campaign.rows import CampaignRow
from astra_chat.spending.budget import Budget

Amounts = dict[str, float]
UNITS = ("tokens", "usd", "evaluations", "gpu_s")
"""What runs spend side by side; the campaign's wall_s is the driver's to keep."""


def spent_by(row: CampaignRow) -> Amounts:
    """What a run has spent; an unknown price is no small one."""
    usd = math.inf if row.usd is None else row.usd
    return {
        "tokens": row.tokens,
        "usd": usd,
        "evaluations": row.evaluations,
        "gpu_s": row.gpu_s,
    }


def allotted(
    own: CampaignRow, run: Budget, whole: Budget, others: Iterable[Mapping[str, float]]
) -> Budget | None:
    """The budget of a run beside others, of which each has spent so much, or may; None: too little
    is left."""
    taken = list(others)
    given = run.model_dump(exclude_none=True)
    for unit in UNITS:
        limit = getattr(whole, unit)
        if limit is None:
            continue
        left = limit - sum(one.get(unit, 0.0) for one in taken)
        if left <= spent_by(own)[unit] or given.get(unit, 0) > left:
            return None
        given.setdefault(unit, left)
    return Budget.model_validate(given)


def reserved(row: CampaignRow, budget: Budget) -> Amounts:
    """What a run under way may still have spent at its end."""
    spent = spent_by(row)
    return {unit: max(spent[unit], getattr(budget, unit) or 0.0) for unit in UNITS}


def used_up(whole: Budget, rows: Iterable[CampaignRow]) -> str:
    """What of the campaign's budget does not suffice for one more run, for the reader."""
    taken = [spent_by(row) for row in rows]
    parts = [
        f"{unit}: {sum(one[unit] for one in taken):,.6g} of {limit:,.6g} spent"
        for unit in UNITS
        if (limit := getattr(whole, unit)) is not None
    ]
    return "the campaign's budget does not cover another run: " + ", ".join(parts)
