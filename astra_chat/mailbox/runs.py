"""The runs that ask in a mailbox, and whether one of them may ask again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from astra_chat.mailbox.files import Unreadable, read_text, write_new
from astra_chat.mailbox.questions import LOOK_S, Question, questions, waiting
from astra_chat.tools.text import one_line
from astra_chat.tools.types import Value
from astra_chat.transcript.reader import read
from astra_chat.transcript.under_way import locked_inodes, progress_of, state_of_run
from astra_vgpu.ground.errors import BadInput

RUNS = ".runs"
"""Folder in a mailbox: a file for each run that was started with it."""
CHECK_S = 1.0
"""Seconds between two looks at the runs."""
GRACE_S = 10.0
"""Seconds that a run that is being started may take to enter."""
START_S = 60.0
"""Seconds that it may take to make the mailbox."""
TELL_S = 10.0
"""Seconds between two lines about what is waited for."""


class Entered(Value):
    """A run that was started with the mailbox."""

    run: str
    transcript: str


class NoRunLeft(Exception):
    """Every run that asked in the mailbox has ended; its text says how."""


def enter(box: Path, run: str, transcript: Path) -> None:
    """Note that a run was started. Raises MissingDependency where it cannot be written."""
    (box / RUNS).mkdir(exist_ok=True)
    entered = Entered(run=run, transcript=str(transcript.resolve()))
    write_new(box / RUNS / f"{run}.json", entered.model_dump_json() + "\n")


@dataclass
class Waiting:
    """Waits for the next question, as long as a run may ask one."""

    box: Path
    role: str | None = None
    run: str | None = None
    doing: str = ""
    """What the runs are busy with while none asks; "" where nothing is known."""
    _since: float = field(default_factory=time.monotonic)
    _checked: float = 0.0
    _seen_alive: bool = False

    def require_mailbox(self) -> None:
        """Raise BadInput where no run has made the mailbox so far."""
        questions(self.box)

    def look(self) -> Question | None:
        """The oldest question without an answer. Raises NoRunLeft, and BadInput where there is no
        mailbox."""
        now = time.monotonic()
        if not self.box.exists() and now - self._since < START_S:
            self.doing = f"waiting for a run with --models mailbox:{self.box} to start"
            return None
        question = next(waiting(self.box, self.role, self.run), None)
        if question is None and now - self._checked >= CHECK_S:
            self._checked = now
            self.doing = "; ".join(busy_runs(self.box, self.run))
            ended = ended_runs(self.box, self.run)
            self._seen_alive |= ended is None
            if ended and (self._seen_alive or now - self._since >= GRACE_S):
                raise NoRunLeft("; ".join(ended))
        return question


def wait_for_question(
    box: Path,
    role: str | None = None,
    run: str | None = None,
    timeout_s: float | None = None,
    tell: Callable[[str], None] = lambda words: None,
) -> Question | None:
    """The oldest question without an answer, as soon as there is one; None where `timeout_s` pass
    without. None for `timeout_s` waits for ever, 0 not at all. `tell`: is told now and then what
    the runs are busy with. Raises NoRunLeft."""
    looking, told, told_s = Waiting(box, role, run), "", float("-inf")
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while (question := looking.look()) is None:
        now = time.monotonic()
        if looking.doing not in ("", told) and now - told_s >= TELL_S:
            told, told_s = looking.doing, now
            tell(told)
        if deadline is not None and now >= deadline:
            looking.require_mailbox()
            return None
        time.sleep(LOOK_S)
    return question


def busy_runs(box: Path, run: str | None = None) -> Iterator[str]:
    """Yields for each run of the mailbox whose judge works what it does, and how far it is."""
    for name, transcript in sorted(_transcripts(box).items()):
        if run in (None, name) and (words := progress_of(transcript)):
            yield f"run {name}: {words}"


def ended_runs(box: Path, run: str | None = None) -> list[str] | None:
    """How each run that asked here has ended; None where one is under way, or not known here."""
    words = []
    locked = locked_inodes()
    for name, transcript in sorted(_transcripts(box).items()):
        if run not in (None, name):
            continue
        try:
            if transcript.stat().st_ino in locked:
                return None
            _, how = state_of_run(read(transcript).records, running=False)
        except (OSError, BadInput):
            return None
        words.append(f"run {name} is not running: {one_line(how)}")
    return words or None


def _transcripts(box: Path) -> dict[str, Path]:
    """Returns the transcripts of the runs that asked or entered, by run."""
    asked = {one.meta.run: Path(one.meta.transcript) for one in questions(box)}
    return asked | {one.run: Path(one.transcript) for one in _entered(box)}


def _entered(box: Path) -> Iterator[Entered]:
    for path in sorted((box / RUNS).glob("*.json")):
        try:
            text = read_text(path)
            if text is not None:
                yield Entered.model_validate_json(text)
        except (Unreadable, ValidationError):  # what is no such note is left alone
            continue
