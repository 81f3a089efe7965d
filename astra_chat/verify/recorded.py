"""A recorded run as the checks read it: the task out of its own texts, evaluations, sources."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from astra_chat.agents.run_state import RunState
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.judge_version import judge_sha256
from astra_chat.tools.task.folder import Task
from astra_chat.transcript.events import Ended, Header, Judged, Resumed
from astra_chat.transcript.reader import Transcript
from astra_chat.transcript.recorded_task import task_of
from astra_chat.transcript.turns import state_of, texts
from astra_vgpu.ground.errors import BadInput


@dataclass(frozen=True)
class JudgedSession:
    """A session of a run and what it judged."""

    root: str
    """Root of the session's seeds; empty where it is not known."""
    judged: list[tuple[int, Evaluation]]
    asked: tuple[str, ...]
    """Roots of the sessions that had ended to wait for a job (detached/): the seed of a job's
    evaluation follows from that of the session that asked. Empty: one was killed."""
    local: bool
    """Whether one machine judged all of it."""


@dataclass(frozen=True)
class Run:
    """What the checks need. `task` is None where the recorded files are no task any more."""

    transcript: Transcript
    task: Task | None
    broken_task: str = ""
    """Why there is none."""

    @cached_property
    def texts(self) -> dict[str, str]:
        """Recorded texts by the sha256 that names them; whether they are what their names say is a
        claim."""
        return texts(self.transcript.records)

    @cached_property
    def state(self) -> RunState:
        return state_of(self.transcript.records)

    @cached_property
    def evaluations(self) -> list[tuple[int, Evaluation]]:
        """Turn and evaluation, in order."""
        return [
            (record.turn, record.event.evaluation)
            for record in self.transcript.records
            if isinstance(record.event, Judged)
        ]

    @cached_property
    def sessions(self) -> list[JudgedSession]:
        """The run's sessions in their order; the last one may not have ended."""
        found: list[JudgedSession] = []
        judged: list[tuple[int, Evaluation]] = []
        asked: list[str] = []
        where, over = "local", True
        for record in self.transcript.records:
            match record.event:
                case Judged(evaluation=evaluation):
                    judged.append((record.turn, evaluation))
                case Ended(seed=seed, job=job):
                    found.append(JudgedSession(seed, judged, tuple(asked), where == "local"))
                    asked += [seed] if job else []
                    judged, over = [], True
                case Header(options=options) | Resumed(options=options):
                    if not over:  # the session before was killed
                        found.append(JudgedSession("", judged, tuple(asked), where == "local"))
                        asked += [""] if where == "detached" else []
                    judged, over, where = [], False, options.judge
        last = JudgedSession("", judged, tuple(asked), where == "local")
        return found if over else [*found, last]

    def by_this_judge(self, evaluation: Evaluation) -> bool:
        """Whether this version of the judge made it."""
        evidence = evaluation.evidence
        return evidence is not None and evidence.judge_sha256 == judge_sha256()


def about(turn: int, evaluation: Evaluation) -> str:
    return f"turn {turn}, {evaluation.candidate}"


@contextmanager
def opened(transcript: Transcript) -> Iterator[Run]:
    """The run with its task, whose files are written to a folder while it is open. Nothing of them
    is executed."""
    try:
        entered = task_of(transcript, None)
        task = entered.__enter__()
    except BadInput as error:
        yield Run(transcript, None, str(error))
        return
    try:
        yield Run(transcript, task)
    finally:
        entered.__exit__(None, None, None)
