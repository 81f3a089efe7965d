"""Jobs: one evaluation or tuning that is asked for, by value, in a folder of a run's `jobs`.

    RUN/jobs/HASH/job.json    what is to be judged; HASH is the sha256 of it as canonical JSON
    RUN/jobs/texts/SHA.txt    the source and the task's files, by their sha256

A job may come from anybody. What is read of it is bounded and held against its hash.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field, ValidationError

from astra_chat.mailbox.files import Unreadable, read_text, replace, whole_folder, write_new
from astra_chat.tools.entropy import EVALUATION
from astra_chat.tools.types import Case, Device, Value, canonical_sha256, sha256_of
from astra_chat.tools.virtual_gpu.adapter import Engine
from astra_chat.transcript.options import MOST_POINTS, OneLine
from astra_chat.transcript.run_folder import JOBS
from astra_vgpu.ground.errors import BadInput, MissingDependency

JOB, TEXTS, CLOSED = "job.json", "texts", "closed.md"
NAME = re.compile(r"[0-9a-f]{64}")
TimedList: TypeAlias = Literal["demo", "bench"] | None
Hex64 = Annotated[str, Field(pattern=rf"^{NAME.pattern}$")]


class TuneRequest(Value):
    """What a job asks for whose source marks constants (tools/tuning/)."""

    points: int = Field(ge=1, le=MOST_POINTS)
    """Points to rank on the virtual GPU, at most."""
    measured: int = Field(ge=2, le=64)
    """Ranked points to measure on the GPU, at most."""


class Wanted(Value):
    """What a run wants of the machine that is to judge its jobs."""

    device: Device
    """A worker's must be of this kind, architecture and spec."""
    judge_sha256: Hex64
    """sha256 of the judge that is to judge the job (tools/judge_version.py)."""
    astra: OneLine
    """Version of the Astra that asks."""


class Job(Wanted):
    """One evaluation or tuning that is asked for: everything that decides its result."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_name: Literal["astra-chat/job/2"] = Field("astra-chat/job/2", alias="schema")
    run: OneLine
    number: int = Field(ge=0)
    """Evaluations of the run before this one."""
    task: OneLine
    task_files: dict[str, Hex64]
    """sha256 of each file of the task folder, by name."""
    tier: Literal["sglang", "paper"]
    """The baseline."""
    timed: TimedList
    """The timed cases; None leaves them to the device."""
    source: Hex64
    """sha256 of the candidate's source."""
    extra_cases: tuple[Case, ...]
    fresh_seeds: bool
    """It confirms a winner."""
    tune: TuneRequest | None = None
    """None: an evaluation is asked for."""
    engine: Engine = "auto"
    """Engine of the virtual GPU."""
    seed: str = Field(pattern=rf"^{EVALUATION.pattern}$")
    """All that is drawn derives from it."""

    @property
    def sha256(self) -> str:
        """Its name: the hash of its canonical JSON."""
        return canonical_sha256(self.model_dump(mode="json"))

    @property
    def texts(self) -> set[str]:
        """Hashes of the texts that it needs."""
        return {self.source, *self.task_files.values()}

    def asks_the_same(self, other: Job) -> bool:
        """Whether it differs from another job in nothing but its seed."""
        return self.model_copy(update={"seed": other.seed}) == other


def read_job(folder: Path) -> Job:
    """The job in its folder. Raises Unreadable where it is cut off, or not the one that its folder
    is named after."""
    return job_in(read_text(folder / JOB), folder.name)


def job_in(text: str | None, name: str) -> Job:
    """The job of this name in its text. Raises Unreadable."""
    if text is None:
        raise Unreadable(f"{JOB} is missing")
    try:
        job = Job.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise Unreadable(
            f"{JOB} is not a job{f': {field}' * bool(field)}: {first['msg']}"
        ) from None
    if job.sha256 != name:
        raise Unreadable(f"{JOB} was changed: its hash does not match the name of its folder")
    return job


def read_texts(folder: Path, job: Job) -> dict[str, str]:
    """The texts that a job names, by hash. Raises Unreadable where one is missing or another."""
    found = {}
    for sha in sorted(job.texts):
        text = read_text(folder.parent / TEXTS / f"{sha}.txt")
        if text is None:
            raise Unreadable(f"{TEXTS}/{sha}.txt, which the job names, is missing")
        if sha256_of(text) != sha:
            raise Unreadable(f"{TEXTS}/{sha}.txt was changed: its hash does not match its name")
        found[sha] = text
    return found


def write_job(box: Path, job: Job, texts: Mapping[str, str]) -> Path:
    """Put a job and its texts into a run's folder of jobs, whole or not at all; one that is there
    stays. Raises MissingDependency where it cannot be written."""
    folder = box / job.sha256
    try:
        (box / TEXTS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MissingDependency(f"cannot write {folder}: {error.strerror}") from None
    for sha in job.texts:
        write_text(box / TEXTS / f"{sha}.txt", texts[sha])
    if not folder.is_dir():
        with whole_folder(folder) as part:
            write_new(part / JOB, job.model_dump_json(indent=1) + "\n")
    return folder


def write_text(path: Path, text: str) -> None:
    """Write a text under its hash; what is there and is not that text gives way. Raises
    MissingDependency."""
    try:
        if read_text(path) == text:
            return
    except Unreadable:
        pass
    replace(path, text)


def folders_in(box: Path) -> list[Path]:
    """Folders of jobs that lie directly in a folder of jobs, by name; no links."""
    try:
        found = [path for path in box.iterdir() if NAME.fullmatch(path.name)]
    except OSError:
        return []
    return sorted(path for path in found if path.is_dir() and not path.is_symlink())


def folders_under(roots: Iterable[Path]) -> Iterator[Path]:
    """Folders of all jobs in these folders and below them, each once; links are not followed.

    Raises BadInput where one of them is no folder.
    """
    seen: set[Path] = set()
    for root in roots:
        if not root.is_dir():
            raise BadInput(f"{root} is not a folder: give a folder that contains runs")
        for place, folders, _ in os.walk(root):
            if Path(place).resolve().name != JOBS:
                folders.sort()
                continue
            # Nothing else lies in it, unless it only has that name: `judge unpack FILE jobs`.
            folders[:] = [name for name in folders if name == JOBS]
            for folder in folders_in(Path(place)):
                if folder.resolve() not in seen:
                    seen.add(folder.resolve())
                    yield folder
