"""What the lab asks of ranks beyond the judge's own requests."""

from __future__ import annotations

from astra_chat.tools.run.rank_messages import RankRequest, RankSide


class LabRequest(RankRequest):
    """Times beside rivals, or many calls compared on the device."""

    norm: RankSide | None = None
    """The kernel that follows the all-reduce of each rival."""
    soak: int = 0
    """Calls that are compared on the device."""
