"""What came of a job: result.json, or refused.json with the reason. A result counts for its own job
and version of the judge only."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, ValidationError

from astra_chat.detached.jobs import Hex64, Job, Wanted
from astra_chat.mailbox.files import Unreadable, read_text, replace
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.judge_version import why_another_judge
from astra_chat.tools.text import one_line
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import Device, Value
from astra_chat.transcript.options import OneLine

RESULT, REFUSED, TAKEN = "result.json", "refused.json", "taken.md"


class Result(Value):
    """What a worker found."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_name: Literal["astra-chat/job-result/2"] = Field(
        "astra-chat/job-result/2", alias="schema"
    )
    job: Hex64
    judge_sha256: Hex64
    """sha256 of the judge that judged."""
    worker: OneLine
    versions: dict[str, str]
    """Versions of the worker's Astra, Python, packages, compilers and driver, by name."""
    found: Evaluation | Tuning

    @property
    def evaluation(self) -> Evaluation:
        """The evaluation found for a job that asks for one."""
        assert isinstance(self.found, Evaluation)
        return self.found


class Refusal(Value):
    """Why a worker did not judge a job; another may."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_name: Literal["astra-chat/job-refusal/1"] = Field(
        "astra-chat/job-refusal/1", alias="schema"
    )
    why: str
    worker: OneLine

    @property
    def text(self) -> str:
        """The refusal in one line, as a half-sentence."""
        return f"refused by {one_line(self.worker)}: {one_line(self.why)}"


def same_device(one: Device, other: Device) -> bool:
    """Whether figures of two devices can be compared: kind, architecture and spec are the same."""
    return (one.kind, one.arch, one.spec) == (other.kind, other.arch, other.spec)


def result_of(folder: Path, job: Job) -> Result | None:
    """The result of a job; None while there is none. Raises Unreadable, with the reason, where what
    is there does not count."""
    text = read_text(folder / RESULT)
    return None if text is None else result_in(text, job)


def result_in(text: str, job: Job) -> Result:
    """The result of a job in its text. Raises Unreadable where it does not count."""
    try:
        result = Result.model_validate_json(text)
    except ValidationError as error:
        raise Unreadable(f"{RESULT} is not a result: {error.errors()[0]['msg']}") from None
    if why := _mismatch(result, job):
        raise Unreadable(f"{RESULT} cannot be used: {why}")
    return result


def _mismatch(result: Result, job: Job) -> str:
    """Why a result is not this job's; empty where it is."""
    found = result.found
    evidence = found.evidence if isinstance(found, Evaluation) else None
    judges = {result.judge_sha256, evidence.judge_sha256 if evidence else job.judge_sha256}
    if result.job != job.sha256:
        return "it belongs to another job"
    if judges != {job.judge_sha256}:
        return "it was made by another version of the judge"
    if found.candidate != job.source[:12]:
        return f"it is for candidate {one_line(found.candidate)[:40]}"
    if isinstance(found, Tuning) != (job.tune is not None):
        return f"the job asks for {'an evaluation' if job.tune is None else 'a tuning'}"
    if isinstance(found, Tuning):
        return ""
    if not same_device(found.device, job.device):
        return f"it was judged on {found.device.name}"
    if (found.seed, found.confirms) != (job.seed, job.fresh_seeds):
        return "it was judged with a different seed"
    return ""


def misfit(job: Wanted, device: Device) -> str:
    """Why a worker with this device cannot judge a job or a run's jobs; empty where it can."""
    if why := why_another_judge(job.judge_sha256, job.astra):
        return why
    if not same_device(job.device, device):
        wanted, here = job.device, device
        return (
            f"it asks for {wanted.name} ({wanted.kind}, {wanted.arch}), but this worker has"
            f" {here.name} ({here.kind}, {here.arch})"
        )
    return ""


def refusal_of(folder: Path) -> Refusal | None:
    """The last refusal of a job; None where there is none that can be read."""
    try:
        text = read_text(folder / REFUSED)
        return None if text is None else refusal_in(text)
    except Unreadable:
        return None


def refusal_in(text: str) -> Refusal:
    """The refusal in its text. Raises Unreadable."""
    try:
        return Refusal.model_validate_json(text)
    except ValidationError as error:
        raise Unreadable(f"{REFUSED} is not a refusal: {error.errors()[0]['msg']}") from None


def write_result(folder: Path, result: Result) -> None:
    """Write the result of a job, in the place of a refusal. Raises MissingDependency where it
    cannot be written."""
    replace(folder / RESULT, result.model_dump_json() + "\n")
    (folder / REFUSED).unlink(missing_ok=True)


def write_refusal(folder: Path, why: str, worker: str) -> None:
    """Write why a job was not judged. Raises MissingDependency where it cannot be written."""
    refusal = Refusal(schema="astra-chat/job-refusal/1", why=one_line(why)[:2000], worker=worker)
    replace(folder / REFUSED, refusal.model_dump_json(indent=1) + "\n")
