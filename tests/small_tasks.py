"""Tasks with fewer and smaller cases, for tests of what judges them rather than of the task."""

from __future__ import annotations

from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case


def within(task: Task, **most: int) -> Task:
    """The task with dims no larger than these, and with those of its cases that fit.

    A drawn case, above all one of a confirmation, is as large as the dims allow: this is what an
    evaluation on the virtual GPU spends its time on.
    """

    def fits(case: Case) -> bool:
        return all(case.dims[name] <= value for name, value in most.items())

    dims = {
        name: dim.model_copy(update={"max": most.get(name, dim.max)})
        for name, dim in task.dims.items()
    }
    timed = {
        name: tuple(one for one in getattr(task, name) if fits(one[0]))
        for name in ("bench", "demo")
    }
    assert timed["demo"], "a case is left to time"
    return task.model_copy(update={"dims": dims, "check": tuple(filter(fits, task.check)), **timed})
