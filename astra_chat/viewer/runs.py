"""The runs in a folder: what came of each, whether it is under way, and what it waits for."""

from __future__ import annotations

import hashlib
import lzma
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from astra_chat.display.results_table import where
from astra_chat.tools.recordings.reading import UNPACKERS, expanded
from astra_chat.tools.task.tiers import baseline_name
from astra_chat.tools.types import Basis, Value
from astra_chat.transcript.reader import Transcript, read
from astra_chat.transcript.run_folder import TRANSCRIPT
from astra_chat.transcript.summary import Speed, summarize
from astra_chat.transcript.under_way import State, locked_inodes, state_of_run
from astra_vgpu.ground.errors import BadInput

MOST_FILES = 20_000
"""Files of a folder that are looked at, at most; a folder named by mistake may hold millions."""
DEEPEST = 6
HEAD_BYTES = 4096
ENDINGS = (".jsonl", ".jsonl.xz", ".jsonl.gz")


class RunRow(Value):
    """One run, as a list shows it."""

    key: str
    """Names the run in addresses: of its path in the folder, the first digits of the sha256."""
    path: str
    """Path of the transcript in the folder."""
    state: State
    words: str
    """What it does or waits for, or how it ended."""
    run: str = ""
    task: str = ""
    baseline: str = ""
    """What `best` is compared with: sglang, paper, or the file of an own task."""
    started: str = ""
    """UTC, ISO 8601."""
    basis: Basis = "estimated"
    where: str = ""
    strategy: str = ""
    models: str = ""
    turns: int = 0
    rounds: int = 0
    best: Speed | None = None
    cost_usd: float | None = None
    """US dollars of all answers; None: not known, or no model was asked."""
    seconds: float = 0.0

    @property
    def folder(self) -> str:
        """Where it lies: runs of one campaign lie together."""
        path = Path(self.path)
        return str(path.parent.parent if path.name == TRANSCRIPT else path.parent)


@dataclass
class Runs:
    """The runs in a folder; what was read is kept until its file changes."""

    root: Path
    _known: dict[Path, tuple[tuple[int, int, int], RunRow]] = field(default_factory=dict)

    def list(self) -> list[RunRow]:
        """Returns the runs in the folder, the newest first."""
        locked = locked_inodes()
        found = [self._row(path, locked) for path in transcripts_in(self.root)]
        return sorted(found, key=lambda row: (row.started, row.path), reverse=True)

    def path_of(self, key: str) -> Path | None:
        """The transcript of a key; only what lies in the folder has one."""
        return next((p for p in transcripts_in(self.root) if self._key(p) == key), None)

    def _key(self, path: Path) -> str:
        relative = path.relative_to(self.root).as_posix()
        return hashlib.sha256(relative.encode(errors="surrogateescape")).hexdigest()[:16]

    def _row(self, path: Path, locked: set[int]) -> RunRow:
        key, relative = self._key(path), path.relative_to(self.root).as_posix()
        try:
            stat = path.stat()
        except OSError as error:
            return RunRow(key=key, path=relative, state="unreadable", words=error.strerror or "")
        # A run that is killed leaves its file as it is, but not its lock.
        mark = (stat.st_mtime_ns, stat.st_size, stat.st_ino in locked)
        known = self._known.get(path)
        if known is None or known[0] != mark:
            row = _read_row(path, key, relative, stat.st_ino in locked)
            known = self._known[path] = (mark, row)
        return known[1]


def runs_of_archive(archive: Path) -> list[RunRow]:
    """Returns the runs recorded in an archive, or in a folder of one, the newest first. Their paths
    are whole: every command takes them. Raises BadInput."""
    paths = [path for path in expanded([archive]) if path.name.endswith(".jsonl")]
    rows = [_read_row(path, "", str(path), running=False) for path in paths]
    return sorted(rows, key=lambda row: (row.started, row.path), reverse=True)


def transcripts_in(root: Path) -> Iterator[Path]:
    """Transcripts in a folder and in its folders; no link is followed."""
    seen = 0
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        if len(here.relative_to(root).parts) >= DEEPEST:
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            seen += 1
            if seen > MOST_FILES:
                return
            path = here / name
            if name.endswith(ENDINGS) and not path.is_symlink() and _begins_well(path):
                yield path


def _begins_well(path: Path) -> bool:
    """Whether the first line may be a transcript's."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            head = file.read(HEAD_BYTES)
        if unpacker := UNPACKERS.get(path.suffix):
            head = unpacker().decompress(head, HEAD_BYTES)
    except (OSError, lzma.LZMAError, zlib.error):
        return False
    return head is not None and b'"event":{"kind":"header"' in head.replace(b" ", b"")


def _read_row(path: Path, key: str, relative: str, running: bool) -> RunRow:
    try:
        return row_of(read(path), key, relative, running)
    except BadInput as error:
        words = str(error).replace(str(path), relative)
        return RunRow(key=key, path=relative, state="unreadable", words=words)


def row_of(transcript: Transcript, key: str, relative: str, running: bool) -> RunRow:
    summary = summarize(transcript.records)
    state, words = state_of_run(transcript.records, running)
    basis: Basis = "measured" if summary.device.kind == "cuda" else "estimated"
    return RunRow(
        key=key,
        path=relative,
        state=state,
        words=words,
        run=summary.run,
        task=summary.task,
        baseline=baseline_name(summary.task, summary.options.tier),
        started=summary.started,
        basis=basis,
        where=where(basis, summary.device),
        strategy=str(summary.options.strategy),
        models=summary.options.models,
        turns=transcript.records[-1].turn,
        rounds=len(summary.rounds),
        best=Speed.model_validate(
            summary.best.model_dump(include={"candidate", "ratio", "low", "high"})
        )
        if summary.best
        else None,
        cost_usd=summary.spent.tokens.usd if summary.spent.roles else None,
        seconds=summary.seconds,
    )
