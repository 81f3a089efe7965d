"""A worker: judges the jobs under a folder, one after the other, and leaves results beside them.

It believes nothing of a job but what it asks for: the task's files, the source and the cases are
bounded and isolated here as those of an untrusted transcript are.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from astra_chat.agents.reply_errors import MAX_SOURCE
from astra_chat.detached.claims import Claims, JobClaim
from astra_chat.detached.jobs import CLOSED, Job, Wanted, folders_under, read_job, read_texts
from astra_chat.detached.results import Result, misfit, result_of, write_refusal, write_result
from astra_chat.mailbox.files import Unreadable
from astra_chat.tools.descriptions import describe
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.judge_version import judge_sha256
from astra_chat.tools.progress import Progress
from astra_chat.tools.ranks.judge import judge_of
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.text import one_line
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.tuning.tuning_judge import TuningJudge
from astra_chat.tools.types import Device, canonical_sha256
from astra_chat.transcript.recorded_cases import (
    MAX_TESTER_CASES,
    require_bounded,
    require_bounded_task,
)
from astra_chat.transcript.recorded_task import write_task_files
from astra_vgpu.ground.errors import AstraError, BadInput, MissingDependency, failure

MOST_JUDGES = 2
"""Each keeps its cases' inputs and results in a temporary folder, which can be gigabytes."""
IDLE_S = 120.0
"""Seconds without a job after which a worker keeps none."""
OF_ONE_JOB = {"number", "source", "extra_cases", "fresh_seeds", "tune", "seed"}
"""What may differ between jobs of one judge; of the seed the part that all of a session share is
the same."""


@dataclass
class KeptJudges:
    """The judges of one worker, by what their jobs have in common; the one used last is last."""

    _kept: dict[str, tuple[TuningJudge, ExitStack]] = field(default_factory=dict)

    @contextmanager
    def of(self, job: Job, made: Callable[[ExitStack], TuningJudge]) -> Iterator[TuningJudge]:
        """The judge of this job, from whose seed it draws. `made` makes one and puts what ends with
        it on the stack. One that did not come to an end is not used again."""
        shared = canonical_sha256(
            {**job.model_dump(mode="json", exclude=OF_ONE_JOB), "cases": job.seed.split("-")[0]}
        )
        judge, ended = self._kept.pop(shared, (None, ExitStack()))
        with ended:
            if judge is None:
                while len(self._kept) >= MOST_JUDGES:
                    self._end(next(iter(self._kept)))
                judge = ended.enter_context(made(ended))
            judge.entropy.again(job.seed)
            yield judge
            self._kept[shared] = judge, ended.pop_all()

    def close(self) -> None:
        """End them all."""
        while self._kept:
            self._end(next(iter(self._kept)))

    def _end(self, shared: str) -> None:
        _, ended = self._kept.pop(shared)
        ended.close()


LOOK_S = 1.0
"""Between two looks for jobs."""
Came = Literal["judged", "refused", "claimed", "failed"]
"""claimed: another worker has it; failed: this machine cannot write beside it."""


@dataclass
class Worker:
    """What this machine judges with."""

    device: Device
    versions: Mapping[str, str]
    """Recorded with each result."""
    trust: bool = False
    """Judge untrusted code even where it cannot be isolated."""
    say: Callable[[str], None] = lambda _: None
    """Called with a line for each job that was judged or refused."""
    begin: Callable[[str], None] = lambda _: None
    """Called with a line for each job that is begun."""
    on_progress: Callable[[Progress], None] = lambda _: None
    claims: Claims = field(default_factory=Claims)
    judges: KeptJudges = field(default_factory=KeptJudges)
    _told: set[str] = field(default_factory=set)
    _given_up: set[Path] = field(default_factory=set)
    """Jobs that cannot be judged here."""

    @property
    def name(self) -> str:
        return self.claims.me.name

    def work(self, roots: Sequence[Path]) -> dict[Came, int]:
        """Judge each open job under these folders once, and say what came of how many. A job that
        was refused or failed is not tried again by this worker.

        Raises BadInput where one is no folder.
        """
        with closing(self.judges):
            return self.look_once(roots)

    def look_once(self, roots: Sequence[Path]) -> dict[Came, int]:
        """Does the same as `work`, but judges are kept for the jobs of another look."""
        count: dict[Came, int] = {"judged": 0, "refused": 0, "claimed": 0, "failed": 0}
        for folder in list(folders_under(roots)):
            try:
                came = self._job(folder)
            except (MissingDependency, OSError) as error:
                came = "failed"
                self._given_up.add(folder)
                self.say(f"job {folder.name[:12]}: {failure(error)[0]}")
            if came is not None:
                count[came] += 1
        return count

    def _job(self, folder: Path) -> Came | None:
        """What came of one job; None where there is nothing to do."""
        if folder in self._given_up or (folder / CLOSED).exists():
            return None
        try:
            job = read_job(folder)
        except Unreadable as error:
            return self._refuse(folder, str(error))
        if self._has_result(folder, job):
            return None
        if why := misfit(job, device_for(job, self.device)):
            return self._refuse(folder, why)
        claim = self.claims.take(folder)
        if not isinstance(claim, JobClaim):
            self._tell(f"job {folder.name[:12]} is being judged by {one_line(claim.name)}")
            return "claimed"
        with claim:
            return None if self._has_result(folder, job) else self._judged(folder, job, claim)

    def _judged(self, folder: Path, job: Job, claim: JobClaim) -> Came | None:
        began = time.monotonic()
        self.begin(f"job {folder.name[:12]}: judging a kernel of {one_line(job.task)}")
        try:
            found = self._found(folder, job)
        except (Unreadable, AstraError) as error:
            return self._refuse(folder, str(error))
        if claim.lost:
            self.say(f"job {folder.name[:12]}: another worker took over; this result is dropped")
            return "claimed"
        result = Result(
            schema="astra-chat/job-result/2",
            job=job.sha256,
            judge_sha256=judge_sha256(),
            worker=self.name,
            versions=dict(self.versions),
            found=found,
        )
        write_result(folder, result)
        seconds = time.monotonic() - began
        told = found.words if isinstance(found, Tuning) else describe(found.outcome)
        words = told.partition("\n")[0]
        self.say(
            f"job {folder.name[:12]}: {one_line(job.task)}, candidate {found.candidate}:"
            f" {one_line(words)} ({seconds:.0f} s)"
        )
        return "judged"

    def _found(self, folder: Path, job: Job) -> Evaluation | Tuning:
        """Raises Unreadable and BadInput for what a job may not ask for, MissingDependency for what
        this machine lacks."""
        texts = read_texts(folder, job)
        source = texts[job.source]
        if len(source) > MAX_SOURCE:
            raise BadInput(
                f"its source has {len(source):,} characters; at most {MAX_SOURCE:,} are allowed"
            )
        with self.judges.of(job, partial(self._new_judge, folder, job, texts)) as judge:
            _require_bounded(job, judge.task)
            if job.tune is not None:
                return judge.tune(source, job.tune.points, job.tune.measured)
            return judge.evaluate(source, job.extra_cases, fresh_seeds=job.fresh_seeds)

    def _new_judge(
        self, folder: Path, job: Job, texts: Mapping[str, str], ended: ExitStack
    ) -> TuningJudge:
        """A judge of the job's task, whose files are there until the stack is closed. Raises
        BadInput for a task that no job may ask for."""
        place = Path(ended.enter_context(tempfile.TemporaryDirectory(prefix="astra-job-")))
        write_task_files(folder, job.task_files, texts, place)
        task = load_task(place)
        require_bounded_task("the job", task, job.device.kind, job.timed, self.trust)
        return judge_of(
            task,
            device_for(job, self.device),
            tier=job.tier,
            cases=job.timed,
            trust=self.trust,
            engine=job.engine,
            entropy=Entropy(job.seed),
            on_progress=self.on_progress,
        )

    def _has_result(self, folder: Path, job: Job) -> bool:
        try:
            return result_of(folder, job) is not None
        except Unreadable as error:
            self._tell(f"job {folder.name[:12]}: {error}; judging it again")
            return False

    def _refuse(self, folder: Path, why: str) -> Came:
        self._given_up.add(folder)
        why = one_line(why)[:2000]
        self.say(f"job {folder.name[:12]} is refused: {why}")
        write_refusal(folder, why, self.name)
        return "refused"

    def _tell(self, line: str) -> None:
        """Once."""
        if line not in self._told:
            self._told.add(line)
            self.say(line)


def _require_bounded(job: Job, task: Task) -> None:
    """Raises BadInput for cases that no tester may ask for."""
    if len(job.extra_cases) > MAX_TESTER_CASES:
        raise BadInput(
            f"it has {len(job.extra_cases):,} cases; at most {MAX_TESTER_CASES} are allowed"
        )
    for case in job.extra_cases:
        try:
            require_bounded(task, case)
        except ValueError as error:
            raise BadInput(str(error)) from None


def device_for(wanted: Wanted, here: Device) -> Device:
    """Returns the device of this machine that judges; a virtual GPU estimates for each GPU that
    there are constants of."""
    if here.kind == wanted.device.kind == "virtual":
        with suppress(BadInput):
            return virtual_device(wanted.device.spec)
    return here


def require_fit(text: str, here: Device) -> None:
    """Raise BadInput where this device cannot judge the jobs of a run; `text`: a Wanted."""
    try:
        wanted = Wanted.model_validate_json(text)
    except ValidationError:
        raise BadInput("its version of Astra differs: use the same on both machines") from None
    if why := misfit(wanted, device_for(wanted, here)):
        raise BadInput(why)


def work_on(worker: Worker, roots: Sequence[Path], ended: threading.Event) -> None:
    """Judge what is there and what comes, until `ended` is set. Raises as `Worker.work`."""
    with closing(worker.judges):
        last_s = time.monotonic()
        while not ended.is_set():
            if worker.look_once(roots)["judged"]:
                last_s = time.monotonic()
                continue
            if time.monotonic() - last_s > IDLE_S:
                worker.judges.close()
            ended.wait(LOOK_S)
