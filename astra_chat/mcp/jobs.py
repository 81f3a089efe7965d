"""Evaluations in the background, one at a time: begun, looked at, stopped."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack

from astra_chat.options import JudgeOptions
from astra_chat.tools.progress import Progress
from astra_chat.tools.system.subprocesses import Cancelled
from astra_chat.tools.text import one_line
from astra_chat.tools.types import Value
from astra_vgpu.ground.errors import BadInput, failure

if TYPE_CHECKING:
    from astra_chat.judging.evaluating import EvaluationReport
    from astra_chat.tools.judge import Judge

State: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled"]
ENDED: tuple[State, ...] = ("done", "failed", "cancelled")
MAX_JOBS = 100
"""That are kept; the oldest that ended are forgotten first."""


class JobStatus(Value):
    """Where an evaluation stands."""

    job: str
    """Its id."""
    state: State
    """queued and running: ask again. failed: Astra could not evaluate, see `error`; a kernel that
    fails is done."""
    progress: str = ""
    """What the judge does now, and how much of it is done."""
    error: str = ""
    """The line that the command line prints."""
    exit_code: int | None = None
    """That of the command line: 0 correct, 1 the kernel failed, 2 bad input, 3 environment, 130
    cancelled. None until it has ended."""
    verdict: str = ""
    """accepted (faster), tie or slower for a kernel that was timed; else what failed."""
    report: str = ""
    """What a model of the chat is told about the kernel."""


@dataclass
class _Job:
    status: JobStatus
    work: Callable[[Callable[[Judge], None], Callable[[Progress], None]], EvaluationReport]
    judge: Judge | None = None
    cancelled: bool = False
    found: EvaluationReport | None = None


class Jobs:
    """The evaluations of one server. A judge has the machine for itself, so they wait in line."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, _Job] = {}
        self._thread = ThreadPoolExecutor(1, "astra-evaluation")

    def begin(
        self,
        source: str,
        more_cases: list[str],
        final: bool,
        task: str,
        **options: Unpack[JudgeOptions],
    ) -> JobStatus:
        """Evaluate a kernel's source with these options of `open_judge`."""

        def work(
            opened: Callable[[Judge], None], tell: Callable[[Progress], None]
        ) -> EvaluationReport:
            from astra_chat.judging.evaluating import open_judge, report_on

            with open_judge(task, **options, on_progress=tell) as judge:
                opened(judge)
                return report_on(judge, source, more_cases, final=final)

        name = secrets.token_hex(4)
        with self._lock:
            self._forget()
            self._jobs[name] = job = _Job(JobStatus(job=name, state="queued"), work)
        begun = job.status
        self._thread.submit(self._run, job)
        return begun

    def status(self, name: str) -> JobStatus:
        """Raises BadInput where there is no such job."""
        with self._lock:
            return self._job(name).status

    def found(self, name: str) -> EvaluationReport | None:
        """All values of an evaluation; None until it is done. Raises BadInput."""
        with self._lock:
            return self._job(name).found

    def cancel(self, name: str) -> JobStatus:
        """Stop an evaluation, or keep it from beginning. Raises BadInput."""
        with self._lock:
            job = self._job(name)
            self._cancel(job)
            return job.status

    def close(self) -> None:
        """Stop all evaluations and wait until their processes are gone."""
        with self._lock:
            for job in self._jobs.values():
                self._cancel(job)
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _job(self, name: str) -> _Job:
        if name not in self._jobs:
            raise BadInput(
                f"no evaluation '{one_line(name)[:100]}' here: start one with `evaluate`"
            )
        return self._jobs[name]

    def _forget(self) -> None:
        ended = [name for name, job in self._jobs.items() if job.status.state in ENDED]
        for name in ended[: max(0, len(self._jobs) - MAX_JOBS + 1)]:
            del self._jobs[name]

    def _cancel(self, job: _Job) -> None:
        if job.status.state in ENDED:
            return
        job.cancelled = True
        if job.judge is not None:
            job.judge.cancel()
        elif job.status.state == "queued":
            self._set(job, state="cancelled", error="cancelled", exit_code=130)

    def _set(self, job: _Job, **changes: Any) -> None:
        job.status = job.status.model_copy(update=changes)

    def _run(self, job: _Job) -> None:
        with self._lock:
            if job.cancelled:
                return
            self._set(job, state="running")
        try:
            job.found = found = job.work(
                lambda judge: self._opened(job, judge), lambda progress: self._tell(job, progress)
            )
            ended: dict[str, Any] = {
                "state": "done",
                "verdict": found.verdict,
                "report": found.report,
                "exit_code": 0 if found.passed else 1,
            }
        except Cancelled:
            ended = {"state": "cancelled", "error": "cancelled", "exit_code": 130}
        except Exception as error:
            words, code = failure(error)
            ended = {"state": "failed", "error": words, "exit_code": code}
        with self._lock:
            job.judge = None
            self._set(job, progress="", **ended)

    def _opened(self, job: _Job, judge: Judge) -> None:
        with self._lock:
            job.judge = judge
            if job.cancelled:
                judge.cancel()

    def _tell(self, job: _Job, progress: Progress) -> None:
        with self._lock:
            self._set(job, progress=progress.line)
