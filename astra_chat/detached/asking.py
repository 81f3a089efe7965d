"""The judge of a run whose evaluations and tunings are jobs: what needs the device is asked for in
files, and the run stops until the result is there. Builds and seeded bugs, which need no GPU, stay
here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from astra_chat.detached.carrying import Carrier, NotJudged
from astra_chat.detached.jobs import (
    CLOSED,
    Job,
    TimedList,
    TuneRequest,
    Wanted,
    folders_in,
    read_job,
    write_job,
)
from astra_chat.detached.results import RESULT, TAKEN, Result, refusal_of, result_of
from astra_chat.mailbox.files import Unreadable, write_new
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.judge_version import judge_sha256
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.progress import Progress
from astra_chat.tools.tuning.space import read_space
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.tuning.tuning_judge import TuningJudge
from astra_chat.tools.types import Case, Device, sha256_of
from astra_chat.transcript.run_folder import JOBS
from astra_chat.version import __version__

NO_SEED = "000000000000-0000000000000000"


class WaitsForJudge(Exception):
    """The run stops until a job is judged; its text says which."""

    def __init__(self, folder: Path, problem: str = "") -> None:
        also = f"; {problem}" if problem else ""
        super().__init__(f"waiting for the judge: job {folder.name[:12]}{also}")
        self.folder, self.problem = folder, problem


class DetachedJudge:
    """The judge's protocol (agents/judge_protocol.py) over a local judge and a folder of jobs."""

    def __init__(
        self, local: TuningJudge, timed: TimedList, judged: int, carrier: Carrier | None = None
    ) -> None:
        """`local` builds and scores; it evaluates nothing. `timed`: the list of cases to time;
        `judged`: evaluations of the run so far; `carrier`: has jobs judged while the run waits."""
        self._local, self._timed, self._number = local, timed, judged
        self._carrier = carrier
        self._run: tuple[Path, str] | None = None

    def begin(self, folder: Path, run: str) -> None:
        """Name the run that asks from here on, and its folder."""
        self._run = folder / JOBS, run

    def __enter__(self) -> DetachedJudge:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._local.close()

    def build(self, source: str, also: Sequence[str] = ()) -> BuildReport:
        return self._local.build(source, also)

    def score(self, cases: Sequence[Case], mutants: int, also: str = "") -> CaseScores:
        return self._local.score(cases, mutants, also)

    def tune(self, source: str, points: int, measured: int) -> Tuning:
        """The result of the job that asks for it; estimates need no other machine. Raises as
        `evaluate`, and BadInput as TuningJudge does."""
        if self._local.device.kind == "virtual":
            return self._local.tune(source, points, measured)
        read_space(source)
        asked = TuneRequest(points=points, measured=measured)
        found = self._result(self._job(source, tune=asked), source).found
        assert isinstance(found, Tuning)
        return found

    def cancel(self) -> None:
        self._local.cancel()

    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation:
        """The result of the job that asks for it. Raises WaitsForJudge where there is none yet, and
        MissingDependency where the job cannot be written."""
        job = self._job(source, extra_cases, fresh_seeds)
        evaluation = self._result(job, source).evaluation
        self._number += 1
        return evaluation

    def _result(self, job: Job, source: str) -> Result:
        """Returns the result of a job about this source; the job is given without its seed. Raises
        as `evaluate`."""
        box, _ = self._asking
        folder, known = _asked_before(box, job)
        if folder is None:
            job = known = job.model_copy(update={"seed": self._seed(job)})
            texts = {sha256_of(source): source}
            texts |= {sha256_of(text): text for text in self._local.task.files().values()}
            close_jobs(box, "The run has moved on to another job.")
            folder = write_job(box, job, texts)
        problem = _problem(folder, known)
        if problem is not None:
            (folder / CLOSED).unlink(missing_ok=True)
            if self._carrier is not None:
                problem = self._carried(self._carrier, folder, known)
        if problem is not None:
            raise WaitsForJudge(folder, problem)
        result = result_of(folder, known)
        assert result is not None
        write_new(folder / TAKEN, "The run has taken the result.\n")
        return result

    def _seed(self, job: Job) -> str:
        """Returns the seed of a new job: the first evaluation's is the first of this session, with
        or without a tuning before it (verify/draw_claims.py)."""
        entropy, candidate = self._local.entropy, job.source[:12]
        return (entropy.timing(candidate) if job.tune else entropy.evaluation(candidate)).text

    def _carried(self, carrier: Carrier, folder: Path, job: Job) -> str | None:
        """What is wrong after a job was carried away and back; None where its result is there."""
        try:
            carrier.judge(folder, job, self._local.stop, self._tell)
        except NotJudged as error:
            return str(error)
        return _problem(folder, job)

    def _tell(self, line: str) -> None:
        """Report what goes on where the job is judged."""
        self._local.on_progress(Progress(step="check", done=0, total=1, text=line))

    @property
    def _asking(self) -> tuple[Path, str]:
        """The folder of jobs, and the run's name."""
        if self._run is None:
            raise RuntimeError("only a run can use a detached judge")
        return self._run

    def _job(
        self,
        source: str,
        extra_cases: Sequence[Case] = (),
        fresh_seeds: bool = False,
        tune: TuneRequest | None = None,
    ) -> Job:
        """Returns a job without its seed."""
        judge, asks = self._local, wanted_of(self._local.device)
        return Job(
            schema="astra-chat/job/2",
            run=self._asking[1],
            number=self._number,
            task=judge.task.name,
            task_files={name: sha256_of(text) for name, text in judge.task.files().items()},
            tier="paper" if judge.tier == "paper" else "sglang",
            timed=self._timed,
            device=asks.device,
            source=sha256_of(source),
            extra_cases=tuple(extra_cases),
            fresh_seeds=fresh_seeds,
            tune=tune,
            seed=NO_SEED,
            judge_sha256=asks.judge_sha256,
            astra=asks.astra,
        )


def wanted_of(device: Device) -> Wanted:
    """What a run with this device wants of whoever judges its jobs."""
    return Wanted(device=device, judge_sha256=judge_sha256(), astra=__version__)


def _problem(folder: Path, job: Job) -> str | None:
    """Why a job has no result, "" where it is only not judged yet; None: it has one."""
    try:
        if result_of(folder, job) is not None:
            return None
    except Unreadable as error:
        return str(error)
    refusal = refusal_of(folder)
    return "" if refusal is None else refusal.text


def _jobs(box: Path) -> list[tuple[Path, Job]]:
    """Returns the jobs in a folder of jobs with their own folders; what is no job, or was changed,
    is left alone."""
    found = []
    for folder in folders_in(box):
        try:
            found.append((folder, read_job(folder)))
        except Unreadable:
            continue
    return found


def _asked_before(box: Path, job: Job) -> tuple[Path | None, Job]:
    """The job by which an earlier session asked the same; of several one with a result."""
    same = [(folder, other) for folder, other in _jobs(box) if job.asks_the_same(other)]
    for folder, other in same:
        try:
            if result_of(folder, other) is not None:
                return folder, other
        except Unreadable:
            continue
    return same[0] if same else (None, job)


def close_jobs(box: Path, why: str) -> None:
    """A run waits for one job at a time: what else it asked for is not judged any more. Raises
    MissingDependency where that cannot be written."""
    for folder, _ in _jobs(box):
        if not (folder / RESULT).exists():
            write_new(folder / CLOSED, f"{why}\n")
