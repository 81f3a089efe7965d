"""Bounds on the cases of a transcript, checked before anything is allocated for one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astra_chat.agents.reply_errors import MAX_CASES
from astra_chat.agents.run_state import proposed
from astra_chat.agents.turns import TestSuite
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.task.domain import MAX_BYTES
from astra_chat.tools.task.folder import Task, load_task, task_names
from astra_chat.tools.task.shipped import ranks_task_names, shipped_folder
from astra_chat.tools.types import Case, DeviceKind
from astra_chat.transcript.reader import Transcript
from astra_chat.transcript.turns import turns_of
from astra_vgpu.ground.errors import BadInput

MAX_TESTER_CASES = 256
"""Cases of all turns of the tester together, at most."""
MAX_DRAWN = 1024
"""Hidden cases of one evaluation at most: there are some 25, and 220 to 600 to confirm
(check/hidden_cases.py)."""
MAX_OWN = 256
"""Cases of one list of a task, at most."""
MAX_TIMED_BYTES = 2**31
"""Bytes of one case that a real GPU times, at most; the largest of the tasks that come with Astra
has 1.3 GiB."""
MAX_SCALAR = 2.0**53


def require_bounded_cases(
    transcript: Transcript, task: Task, device: DeviceKind, trust: bool = False
) -> None:
    """Raises BadInput, in one line, for a recorded case that no tester may ask for or no judge
    draws, and for one of the recorded task itself that is too large, unless the user trusts it."""
    total = 0
    for number, cases, most in _recorded(transcript):
        where = f"{transcript.path}, turn {number}"
        total += len(cases) if most == MAX_CASES else 0
        if len(cases) > most or total > MAX_TESTER_CASES:
            raise BadInput(f"{where}: {len(cases):,} cases are too many")
        for case in cases:
            try:
                require_bounded(task, case)
            except ValueError as error:
                raise BadInput(f"{where}: {error}") from None
    require_bounded_task(str(transcript.path), task, device, transcript.options.cases, trust)


def require_bounded(task: Task, case: Case) -> None:
    """Raise ValueError unless a tester might ask for the case, or the judge draw it."""
    task.require_legal(case)
    task.require_small(case)
    for name, value in case.scalars.items():
        if not abs(value) <= MAX_SCALAR:
            raise ValueError(f"{name} = {value:g} is not a valid value of a scalar")


def _recorded(transcript: Transcript) -> Iterator[tuple[int, Sequence[Case], int]]:
    """Yields the turns that hold cases: number of the turn, its cases, and how many it may have."""
    for number, turn in enumerate(turns_of(transcript.records), 1):
        match turn.payload:
            case TestSuite() as suite:
                yield number, proposed(suite), MAX_CASES
            case CaseScores(cases=scores):
                yield number, [score.case for score in scores], MAX_TESTER_CASES
            case Evaluation(check=check) if check is not None:
                yield number, check.own_draw, MAX_DRAWN
            case _:
                pass


def _came_with_astra(task: Task) -> bool:
    names = [*task_names(), *ranks_task_names()]
    return task.name in names and load_task(shipped_folder(task.name)).id == task.id


def require_bounded_task(
    where: str, task: Task, device: DeviceKind, timed_list: str | None, trust: bool
) -> None:
    """Raises BadInput, which begins with `where` it comes from, for a task whose own cases are too
    many or too large, unless it came with Astra or the user trusts it. `timed_list`: demo or bench;
    None leaves it to the device."""
    if trust or _came_with_astra(task):
        return
    listed = timed_list or ("bench" if device == "cuda" else "demo")
    timed = [case for case, _ in (task.bench if listed == "bench" else task.demo)]
    most = MAX_TIMED_BYTES if device == "cuda" else MAX_BYTES
    for name, cases, most_bytes in (("check", task.check, MAX_BYTES), ("timed", timed, most)):
        if len(cases) > MAX_OWN:
            raise BadInput(f"{where}: the task has {len(cases):,} {name} cases")
        for case in cases:
            if (size := task.buffer_bytes(case)) > most_bytes:
                raise BadInput(
                    f"{where}: the task's {name} case {case.label[:200]} takes {size:,}"
                    f" bytes, more than {most_bytes:,}: add --trust if you know the origin"
                )
