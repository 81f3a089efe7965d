"""Who decides for the human: somebody at the terminal, a file of decisions, or nobody yet."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import termios
import tomllib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, Protocol, TextIO, TypeAlias

from pydantic import Field, ValidationError

from astra_chat.agents.approval import Choice, Question, decision
from astra_chat.agents.turn_order import Gate
from astra_chat.agents.turns import Turn
from astra_chat.approval.view import MAX_LINES, show_difference, show_question
from astra_chat.display.console import console
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.language import suffix_of
from astra_chat.tools.text import one_line
from astra_chat.tools.types import Value
from astra_chat.tools.wording import invalid
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import turns_of
from astra_vgpu.ground.errors import AstraError, BadInput, reading

ASK, DETACHED = "ask", "detached"
Answer: TypeAlias = Turn | Literal["wait", "stop"]
"""A turn of the human's; or the run ends, to be resumed: waiting for one, or stopped."""

Word: TypeAlias = Choice | Literal["stop", "difference", "help"]
WORDS: dict[str, Word] = {
    **dict.fromkeys(("a", "approve"), "approve"),
    **dict.fromkeys(("l", "all", "approve all"), "approve_all"),
    **dict.fromkeys(("r", "reject"), "reject"),
    **dict.fromkeys(("e", "edit"), "edit"),
    **dict.fromkeys(("d", "difference"), "difference"),
    **dict.fromkeys(("s", "stop"), "stop"),
    **dict.fromkeys(("?", "help"), "help"),
}
"""What may be typed, a letter or the whole word: a longer answer may mean the opposite."""
CHOICES = "[a]pprove, [r]eject, [e]dit, approve al[l], full [d]iff, [s]top, [?]"
PROMPTS: dict[Gate, str] = {
    "run": f"run it? {CHOICES} ",
    "accept": f"accept it as the best? {CHOICES} ",
}
HELP = """\
a  approve      {yes}
r  reject       {no}; {why}
e  edit         change its source in $EDITOR; your version is built and judged instead
l  all          approve this and every later candidate of this run
d  diff         show the full diff from its parent
s  stop         decide later: the run ends and can be resumed
"""
WHY = {
    False: "reason (the planner will read it): ",
    True: "reason for the record (press Enter for none): ",
}
"""What is asked after a rejection, by whether it is in the last round: no planner follows that."""
MEANING: dict[Gate, dict[str, str]] = {
    "run": {
        "yes": "its code runs on this machine, in isolation, to be checked and timed",
        "no": "none of its code is run",
    },
    "accept": {
        "yes": "it becomes the best candidate so far: later plans build on it, and best.cu"
        " (best.py) contains it",
        "no": "the best candidate so far does not change",
    },
}


class Approver(Protocol):
    """Decides on one candidate at a time. Called between turns; may block."""

    def decide(self, asked: Question) -> Answer: ...


class Terminal:
    """Asks whoever sits at the terminal. The end of its input stops the run, as Ctrl-C does."""

    def __init__(self, source: TextIO, out: TextIO) -> None:
        self._in, self._out = source, out

    def decide(self, asked: Question) -> Answer:
        show_question(console(self._out), asked, MAX_LINES)
        self._forget_typed()
        while (line := self._read(PROMPTS[asked.gate])) is not None:
            word = WORDS.get(" ".join(line.lower().split()))
            if word == "stop":
                return "stop"
            said = self._answer(asked, word, line)
            if said is not None:
                return said
        return "stop"

    def _answer(self, asked: Question, word: Word | None, line: str) -> Turn | None:
        """The turn that a word makes; None where the user has to be asked again."""
        match word:
            case None | "stop":
                if line.strip():
                    print(f"not understood: {one_line(line)[:80]}; type ? for help", file=self._out)
            case "help":
                why = "the reason is recorded" if asked.last_round else "the planner reads why"
                print(HELP.format(**MEANING[asked.gate], why=why), end="", file=self._out)
            case "difference":
                show_difference(console(self._out), asked)
            case choice:
                return self._turn_of(asked, choice)
        return None

    def _forget_typed(self) -> None:
        """What was typed before the question was shown is no answer to it."""
        if self._in.isatty():
            termios.tcflush(self._in.fileno(), termios.TCIFLUSH)

    def _turn_of(self, asked: Question, choice: Choice) -> Turn | None:
        """The turn of a choice; None if the user has to be asked again."""
        if choice == "edit":
            return self._edited(asked)
        if choice != "reject":
            return decision(asked, choice)
        while (reason := self._read(WHY[asked.last_round])) is not None:
            if reason.strip() or asked.last_round:
                return decision(asked, choice, reason.strip())
        return None

    def _edited(self, asked: Question) -> Turn | None:
        try:
            return decision(asked, "edit", source=edited(asked))
        except (ValueError, BadInput) as error:
            print(error, file=self._out)
            return None

    def _read(self, prompt: str) -> str | None:
        """A line; None at the end of the input."""
        print(prompt, end="", file=self._out, flush=True)
        return self._in.readline() or None


@dataclass(frozen=True)
class GivenDecision:
    """One answer that was given beforehand."""

    word: Choice
    reason: str = ""
    file: Path | None = None
    """Source of an edit."""

    def decide(self, asked: Question) -> Answer:
        """Returns the answer as a turn, or wait or stop. Raises BadInput for an edit that cannot be
        used."""
        source = source_of(self.file) if self.file is not None else ""
        try:
            return decision(asked, self.word, self.reason, source)
        except ValueError as error:
            raise BadInput(f"{self.file}: {error}") from None


class ScriptedDecision(Value):
    """One entry of a file of decisions."""

    answer: Literal["approve", "approve_all", "reject", "edit", "stop"]
    reason: str = ""
    file: str = ""
    """Path of an edit's source, beside the file of decisions; empty for other answers."""


class ScriptedDecisions(Value):
    """A file of decisions: [[decision]] tables, in order."""

    decision: tuple[ScriptedDecision, ...] = Field(min_length=1)


class Scripted:
    """Takes the n-th decision of the chat from a file; it has no cursor that a kill could lose.

    Where the file has no further decision, the run waits for one.
    """

    def __init__(self, path: Path) -> None:
        """Read a TOML file of decisions. Raises BadInput naming what is wrong with it."""
        self._path = path
        try:
            said = ScriptedDecisions.model_validate(tomllib.loads(path.read_text()))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise BadInput(f"cannot read decisions from {path}: {error}") from None
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise BadInput(
                f"{path}: {field}: {invalid(first, ScriptedDecision.model_fields)}"
            ) from None
        self._decisions = said.decision
        for one in said.decision:
            if one.answer == "edit":
                source_of(path.parent / one.file)

    def decide(self, asked: Question) -> Answer:
        if asked.number >= len(self._decisions):
            return "wait"
        said = self._decisions[asked.number]
        if said.answer == "stop":
            return "stop"
        file = self._path.parent / said.file if said.answer == "edit" else None
        return GivenDecision(said.answer, said.reason, file).decide(asked)


class RecordedDecisions:
    """Decides as the human did in a recorded run; where they were not asked, the run waits."""

    def __init__(self, path: Path) -> None:
        turns = turns_of(read(path).records)
        self._said = [
            (_about(before), said) for before, said in pairwise(turns) if said.speaker == "human"
        ]

    def decide(self, asked: Question) -> Answer:
        """Returns the recorded answer about this candidate at this gate: of several, the one with
        the question's number, else the first; "wait" where there is none."""
        same = {
            number: said
            for number, (about, said) in enumerate(self._said)
            if about == (asked.gate, asked.kernel.candidate)
        }
        number = asked.number if asked.number in same else next(iter(same), None)
        return "wait" if number is None else same[number]


def _about(asked: Turn) -> tuple[Gate, str]:
    """At which gate the human was asked, and about what."""
    last = asked.payload
    assert isinstance(last, BuildReport | Evaluation)
    return "run" if isinstance(last, BuildReport) else "accept", last.candidate


class Detached:
    """Leaves it to `astra-chat approve`, whenever that comes."""

    def decide(self, asked: Question) -> Answer:
        return "wait"


class NoTerminal(AstraError):
    """Somebody is to be asked, and there is no terminal to ask at."""

    exit_code = 4


def approver_for(spec: str) -> Approver:
    """Returns the approver that --approver names: ask, detached, a TOML file, or a recorded run.
    Raises BadInput and NoTerminal."""
    if spec == ASK:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise NoTerminal(
                f"--approve needs a terminal: use --approver {DETACHED} to decide later"
                " with astra-chat approve, or --approver FILE.toml to read decisions from"
                " a file"
            )
        return Terminal(sys.stdin, sys.stderr)
    if spec == DETACHED:
        return Detached()
    path = Path(spec)
    if not path.exists():
        raise BadInput(
            f"--approver {spec}: no such file: use {ASK}, {DETACHED}, a file of decisions"
            " (FILE.toml), or a recorded run"
        )
    return Scripted(path) if path.suffix == ".toml" else RecordedDecisions(path)


def edited(asked: Question) -> str:
    """The candidate's source as the user's editor left it: $VISUAL, $EDITOR or vi.

    Raises BadInput if there is none, or it failed.
    """
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="astra-edit-") as folder:
        path = Path(folder) / f"{asked.kernel.candidate}{suffix_of(asked.kernel.source)}"
        path.write_text(asked.kernel.source)
        try:
            done = subprocess.run([*shlex.split(command), str(path)], check=False)
        except (OSError, ValueError) as error:
            raise BadInput(f"cannot start the editor '{command}': {error}; set EDITOR") from None
        if done.returncode:
            raise BadInput(f"the editor '{command}' failed; nothing was changed")
        return source_of(path)


def source_of(path: Path) -> str:
    """Text of a kernel file. Raises BadInput."""
    with reading(path):
        return path.read_text()
