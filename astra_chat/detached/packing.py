"""Jobs and results as one file, to be carried between two machines: `judge pack`, `judge unpack`.

A zip of jobs/HASH/job.json, result.json or refused.json, texts/SHA.txt, and manifest.json with the
sha256 of each. It may come from anybody: all of it is checked before anything is written, and
nothing is written under a name that it chooses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, ValidationError

from astra_chat.detached.jobs import (
    CLOSED,
    JOB,
    TEXTS,
    Hex64,
    Job,
    folders_under,
    job_in,
    read_job,
    read_texts,
    write_job,
)
from astra_chat.detached.results import (
    REFUSED,
    RESULT,
    TAKEN,
    refusal_in,
    refusal_of,
    result_in,
    result_of,
    write_refusal,
    write_result,
)
from astra_chat.mailbox.files import MAX_BYTES as MAX_FILE_BYTES
from astra_chat.mailbox.files import Unreadable
from astra_chat.tools.text import one_line
from astra_chat.tools.types import Value
from astra_chat.transcript.archive import (
    MAX_BYTES,
    MAX_MEMBERS,
    read_zip,
    sha256_of_bytes,
    write_zip,
)
from astra_chat.transcript.run_folder import JOBS
from astra_vgpu.ground.errors import BadInput

MANIFEST = "manifest.json"
OF_A_JOB = re.compile(rf"{JOBS}/([0-9a-f]{{64}})/({JOB}|{RESULT}|{REFUSED})".replace(".", r"\."))
OF_TEXTS = re.compile(rf"{TEXTS}/([0-9a-f]{{64}})\.txt")


class JobsManifest(Value):
    """What a file holds."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_name: Literal["astra-chat/jobs/1"] = Field("astra-chat/jobs/1", alias="schema")
    files: dict[str, Hex64]
    """sha256 of every other member, by name."""


@dataclass
class Carried:
    """What was packed or unpacked."""

    jobs: int = 0
    """Open jobs."""
    results: int = 0
    refusals: int = 0
    """Reasons why open jobs were not judged."""
    left_out: list[str] = field(default_factory=list)
    """What was not packed or unpacked, in one line each."""


def pack(roots: Sequence[Path], out: Path) -> Carried:
    """Write the open jobs under these folders, with what they need, and the results that no run has
    taken yet. Raises BadInput where one is no folder, `out` cannot be written, or it is too much.
    """
    carried, members = Carried(), dict[str, bytes]()
    for folder in folders_under(roots):
        if (folder / CLOSED).exists() or (folder / TAKEN).exists():
            continue
        try:
            _pack_one(folder, members, carried)
        except Unreadable as error:
            carried.left_out.append(f"job {folder.name[:12]}: {error}")
    _write(members, out)
    return carried


def pack_job(folder: Path, out: Path) -> None:
    """Write one job. Raises BadInput as `pack` does, and Unreadable where it is cut off."""
    members = dict[str, bytes]()
    _pack_one(folder, members, Carried())
    _write(members, out)


def _write(members: dict[str, bytes], out: Path) -> None:
    """Write members and their manifest. Raises BadInput."""
    size = sum(map(len, members.values()))
    if size > MAX_BYTES or len(members) >= MAX_MEMBERS:
        raise BadInput(
            f"{len(members):,} files of {size:,} bytes in all are too many for one"
            f" archive: at most {MAX_MEMBERS:,} files and {MAX_BYTES:,} bytes; pack fewer"
            " runs at a time"
        )
    files = {name: sha256_of_bytes(content) for name, content in sorted(members.items())}
    manifest = JobsManifest(schema="astra-chat/jobs/1", files=files)
    members[MANIFEST] = (manifest.model_dump_json(indent=1) + "\n").encode()
    write_zip(out, members)


def _pack_one(folder: Path, members: dict[str, bytes], carried: Carried) -> None:
    """Add an open job with its texts, or a job with its result, to the members. Raises
    Unreadable."""
    job, name = read_job(folder), f"{JOBS}/{folder.name}"
    result = result_of(folder, job)
    found = {f"{name}/{JOB}": job.model_dump_json().encode()}
    if result is not None:
        found[f"{name}/{RESULT}"] = result.model_dump_json().encode()
        carried.results += 1
    else:
        texts = read_texts(folder, job)
        found |= {f"{TEXTS}/{sha}.txt": text.encode() for sha, text in texts.items()}
        if (refusal := refusal_of(folder)) is not None:
            found[f"{name}/{REFUSED}"] = refusal.model_dump_json().encode()
            carried.refusals += 1
        carried.jobs += 1
    members |= found


def unpack(file: Path, root: Path) -> Carried:
    """Put results and refusals beside their jobs under a folder, and jobs that are not there yet
    into its `jobs`. A result that is there already stays. A folder that is not there is made for
    open jobs; results alone have nothing to lie beside there.

    Raises BadInput, before anything is written, where the file is not what `pack` makes; and
    MissingDependency where something cannot be written.
    """
    members = _checked(file)
    jobs = _jobs(file, members)
    new = not root.exists() and any(f"{JOBS}/{name}/{RESULT}" not in members for name in jobs)
    known = {} if new else {folder.name: folder for folder in folders_under([root])}
    box, carried = root / JOBS, Carried()
    if box.is_symlink():
        raise BadInput(f"{box} is a link, and Astra does not write through links: delete it")
    texts = {m[1]: text for name, text in members.items() if (m := OF_TEXTS.fullmatch(name))}
    plans: list[Callable[[], object]] = []
    for name, job in jobs.items():
        found = _Found(job, known.get(name), texts)
        of_job = {part: members.get(f"{JOBS}/{name}/{part}") for part in (RESULT, REFUSED)}
        try:
            plans += found.plans(box, of_job[RESULT], of_job[REFUSED], carried)
        except Unreadable as error:
            raise BadInput(f"{file}: job {name[:12]}: {error}") from None
    for write in plans:
        write()
    return carried


def unpack_job(file: Path, folder: Path, job: Job) -> bool:
    """Put the result of one job, or why it was refused, beside it; nothing else of the file counts.
    False: the file has neither.

    Raises BadInput and Unreadable, before anything is written, for what `pack` does not make or is
    not this job's; and MissingDependency where it cannot be written.
    """
    members, name = _checked(file), f"{JOBS}/{job.sha256}"
    result, refusal = members.get(f"{name}/{RESULT}"), members.get(f"{name}/{REFUSED}")
    if result is not None:
        write_result(folder, result_in(result, job))
    elif refusal is not None:
        why = refusal_in(refusal)
        write_refusal(folder, why.why, one_line(why.worker))
    return result is not None or refusal is not None


@dataclass(frozen=True)
class _Found:
    """A job of a file, and its folder where there is one."""

    job: Job
    folder: Path | None
    texts: Mapping[str, str]

    def plans(
        self, box: Path, result: str | None, refusal: str | None, carried: Carried
    ) -> list[Callable[[], object]]:
        """What is to be written. Raises Unreadable for what may not be."""
        job, folder = self.job, self.folder
        if result is not None:
            value = result_in(result, job)
            if folder is None:
                carried.left_out.append(f"result of job {job.sha256[:12]}: there is no such job")
                return []
            if _has_result(folder):
                return []
            carried.results += 1
            return [lambda: write_result(folder, value)]
        if folder is not None:
            why = None if refusal is None or _has_result(folder) else refusal_in(refusal)
            if why is None:
                return []
            carried.refusals += 1
            return [lambda: write_refusal(folder, why.why, one_line(why.worker))]
        if missing := job.texts - self.texts.keys():
            raise Unreadable(f"{TEXTS}/{min(missing)}.txt, which the job names, is missing")
        carried.jobs += 1
        return [lambda: write_job(box, job, self.texts)]


def _has_result(folder: Path) -> bool:
    try:
        return result_of(folder, read_job(folder)) is not None
    except Unreadable:
        return False


def _checked(file: Path) -> dict[str, str]:
    """Returns the members of a file as text, each with its hash in the manifest. Raises
    BadInput."""
    members = read_zip(file, "not a job archive")
    try:
        manifest = JobsManifest.model_validate_json(members.pop(MANIFEST, b""))
    except ValidationError:
        raise BadInput(
            f"{file} is not a job archive (it has no valid {MANIFEST}): create one with"
            " `astra-chat judge pack`"
        ) from None
    if members.keys() != manifest.files.keys():
        raise BadInput(f"{file} was changed: its members are not the ones listed in {MANIFEST}")
    texts = {}
    for name, content in members.items():
        what = OF_TEXTS.fullmatch(name)
        if what is None and OF_A_JOB.fullmatch(name) is None:
            raise BadInput(f"{file} contains '{one_line(name)[:200]}', which is not part of a job")
        if len(content) > MAX_FILE_BYTES:
            raise BadInput(f"{file}: {name} has more than {MAX_FILE_BYTES:,} bytes")
        sha = sha256_of_bytes(content)
        if sha != manifest.files[name] or (what is not None and sha != what[1]):
            raise BadInput(f"{file} was changed: the hash of {name} does not match")
        try:
            texts[name] = content.decode()
        except UnicodeDecodeError:
            raise BadInput(f"{file}: {name} is not text") from None
    return texts


def _jobs(file: Path, members: Mapping[str, str]) -> dict[str, Job]:
    """Returns the jobs among a file's members, by their hashes. Raises BadInput."""
    jobs = {}
    for name in sorted({m[1] for member in members if (m := OF_A_JOB.fullmatch(member))}):
        try:
            jobs[name] = job_in(members.get(f"{JOBS}/{name}/{JOB}"), name)
        except Unreadable as error:
            raise BadInput(f"{file}: job {name[:12]}: {error}") from None
    return jobs
