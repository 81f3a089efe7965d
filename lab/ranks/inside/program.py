"""One rank: `python -m lab.ranks.inside.program`."""

from __future__ import annotations

from astra_chat.tools.runners.ranks.checking import Rank, Shared
from astra_chat.tools.runners.ranks.rank import Work, serve
from astra_chat.tools.task.folder import Task
from lab.ranks.inside.rivals import BesideRivals
from lab.ranks.inside.soak import Soak
from lab.ranks.messages import LabRequest


def work(task: Task, asked: LabRequest, rank: Rank, shared: Shared) -> list[Work]:
    """The work of a request."""
    if asked.soak:
        return [Soak(task, asked, rank, shared)]
    return [BesideRivals(task, asked, rank, shared)]


if __name__ == "__main__":
    serve(LabRequest, work)
