"""A task's scripted run, script/script.toml, as values; script/triton.toml where the run takes
Triton, too. Its kernels are files beside it, or stored as edits of one."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from astra_chat.agents.edits import kernel_of
from astra_chat.agents.turns import (
    Analysis,
    Direction,
    Edit,
    Edits,
    Plan,
    Source,
    TestCase,
    TestSuite,
)
from astra_chat.tools.language import CUDA_ONLY, Language
from astra_chat.tools.task.folder import Task, task_names
from astra_chat.tools.task.shipped import ranks_task_names, shipped_folder
from astra_chat.tools.types import Basis, Value
from astra_chat.tools.wording import invalid
from astra_vgpu.ground.errors import BadInput

SCRIPT = Path("script", "script.toml")
TRITON_SCRIPT = Path("script", "triton.toml")

Expected = Literal[
    "refused",
    "build_failed",
    "unsupported",
    "wrong",
    "unsafe",
    "crashed",
    "timed_out",
    "accepted",
    "tie",
    "slower",
]
"""The expected result of a scripted kernel: an outcome's kind, or the verdict of its timing."""


class Expects(Value):
    """On a real GPU, and by the virtual GPU's estimate, which may rank two kernels differently. One
    value in script.toml stands for both."""

    measured: Expected
    estimated: Expected

    @model_validator(mode="before")
    @classmethod
    def _one_word(cls, found: object) -> object:
        return {"measured": found, "estimated": found} if isinstance(found, str) else found

    def on(self, basis: Basis) -> Expected:
        return self.measured if basis == "measured" else self.estimated


class StoredKernel(Value):
    """A kernel file of the script that differs little from another, stored as edits of that one."""

    file: str
    """The file's name; kernels name it as if it were in the folder."""
    like: str
    """A kernel file in the folder, or one stored before."""
    edits: tuple[Edit, ...] = Field(min_length=1)


class ScriptedKernel(Value):
    """A turn of the coder or the fixer: a file, or a file with edits."""

    file: str
    edits: tuple[Edit, ...] = ()
    words: str
    expects: Expects

    @property
    def name(self) -> str:
        return f"{self.file}, edited" if self.edits else self.file


class ScriptedPlan(Value):
    title: str
    change: str
    why: str
    anchor: str
    metric: str
    moves: Direction = "unsaid"
    risk: str = ""
    predicted_ratio: float = Field(gt=0)


class ScriptedAnalysis(Value):
    words: str
    evidence: tuple[str, ...] = ()
    bottleneck: str
    next: Literal["plan", "unsure", "stop"] = "plan"


class ScriptedRound(Value):
    plan: ScriptedPlan
    coder: ScriptedKernel
    fixer: tuple[ScriptedKernel, ...] = ()
    profiler: ScriptedAnalysis | None = None


class ScriptedTester(Value):
    words: str
    cases: tuple[dict[str, int | str], ...] = ()
    """Flat: the task's dims, dtype, other type variables, values, why."""


class ScriptedChoice(Value):
    choose: str


class ScriptFile(Value):
    """script.toml as written."""

    stored: tuple[StoredKernel, ...] = ()
    tester: tuple[ScriptedTester, ...] = ()
    round: tuple[ScriptedRound, ...] = Field(min_length=1)
    selector: tuple[ScriptedChoice, ...] = ()

    @model_validator(mode="after")
    def _files_are_names(self) -> ScriptFile:
        names = {kernel.file for kernel in self.kernels()}
        names |= {name for one in self.stored for name in (one.file, one.like)}
        if elsewhere := sorted(name for name in names if Path(name).name != name):
            raise ValueError(
                f"file '{elsewhere[0]}' is not the name of a file in the script's folder"
            )
        edited = [kernel.name for kernel in self.kernels() if kernel.edits]
        if twice := {name for name in edited if edited.count(name) > 1}:
            raise ValueError(
                f"edits '{min(twice)}' twice: give one of the two results as a whole file"
            )
        return self

    def kernels(self) -> list[ScriptedKernel]:
        return [kernel for one in self.round for kernel in (one.coder, *one.fixer)]


class Script(Value):
    """The turns of a scripted run as payloads."""

    testers: tuple[TestSuite, ...]
    rounds: tuple[ScriptedRound, ...]
    choices: tuple[str, ...]
    sources: dict[str, str]
    """Text of every turn's kernel, by the turn's name."""

    def plan(self, number: int) -> Plan | None:
        """Plan of a round, counted from 1; None if the script has none."""
        one = self._round(number)
        return Plan(**one.plan.model_dump()) if one else None

    def kernels(self) -> list[ScriptedKernel]:
        """All turns of coder and fixer, in order."""
        return [kernel for one in self.rounds for kernel in (one.coder, *one.fixer)]

    def scripted_kernel(self, number: int, repair: int) -> ScriptedKernel | None:
        """The coder's turn (repair 0) or the fixer's n-th of a round."""
        one = self._round(number)
        if one is None:
            return None
        turns = (one.coder, *one.fixer)
        return turns[repair] if repair < len(turns) else None

    def kernel(self, number: int, repair: int, seen: str = "") -> Source | Edits | None:
        """Returns a scripted kernel: as edits if the file to edit is in `seen`, the role's prompt;
        else as a whole file."""
        scripted = self.scripted_kernel(number, repair)
        if scripted is None:
            return None
        if scripted.edits and self.sources[scripted.file] in seen:
            return Edits(words=scripted.words, edits=scripted.edits)
        return Source(words=scripted.words, source=self.sources[scripted.name])

    def analysis(self, number: int) -> Analysis | None:
        one = self._round(number)
        return Analysis(**one.profiler.model_dump()) if one and one.profiler else None

    def tests(self, number: int) -> TestSuite | None:
        """The tester's n-th turn."""
        return self.testers[number - 1] if 0 < number <= len(self.testers) else None

    def choice(self, number: int) -> str | None:
        """The selector's n-th choice."""
        return self.choices[number - 1] if 0 < number <= len(self.choices) else None

    def _round(self, number: int) -> ScriptedRound | None:
        return self.rounds[number - 1] if 0 < number <= len(self.rounds) else None


def scripted_names() -> list[str]:
    """Returns the names of the shipped tasks that have a scripted run."""
    names = [*task_names(), *ranks_task_names()]
    return [n for n in names if (shipped_folder(n) / SCRIPT).is_file()]


def load_script(task: Task, languages: Sequence[Language] = CUDA_ONLY) -> Script:
    """The scripted run of a task, for kernels in these languages. Raises BadInput naming file and
    field of what is wrong."""
    mixed = task.folder / TRITON_SCRIPT
    path = mixed if "triton" in languages and mixed.is_file() else task.folder / SCRIPT
    folder = path.parent
    if not path.is_file() and mixed.is_file():
        raise BadInput(f"the scripted run of {task.name} needs --languages cuda,triton")
    if not path.is_file():
        raise BadInput(
            f"task {task.name} has no scripted run ({path} is missing): --models sets who answers:"
            " mailbox:DIR (you or a coding agent, without a key), openai:MODEL (a key in"
            " OPENAI_API_KEY),"
            " or openai:MODEL with --base-url http://HOST:PORT/v1 (your own server); without a"
            f" chat, astra-chat evaluate {task.folder} KERNEL.cu judges a kernel, and"
            " astra-chat tune chooses its constants"
        )
    try:
        script = ScriptFile.model_validate(tomllib.loads(path.read_text()))
        testers = tuple(_suite(turn, task) for turn in script.tester)
        sources = _sources(folder, script)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "script"
        raise BadInput(f"{path}: {field}: {invalid(first)}") from None
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None
    return Script(
        testers=testers,
        rounds=script.round,
        choices=tuple(choice.choose for choice in script.selector),
        sources=sources,
    )


def _sources(folder: Path, script: ScriptFile) -> dict[str, str]:
    """Returns the sources by turn. Raises BadInput for a file that is not there, ValueError for
    edits that cannot be made."""
    stored: dict[str, str] = {}
    for one in script.stored:
        stored[one.file] = _edited(_source(folder, stored, one.like), one.edits)
    sources: dict[str, str] = {}
    for kernel in script.kernels():
        sources[kernel.file] = source = _source(folder, stored, kernel.file)
        if kernel.edits:
            sources[kernel.name] = _edited(source, kernel.edits)
    return sources


def _source(folder: Path, stored: dict[str, str], name: str) -> str:
    """Returns the text of a kernel file. Raises BadInput where it is neither stored nor there."""
    if name in stored:
        return stored[name]
    if not (folder / name).is_file():
        raise BadInput(f"the script in {folder} names {name}, which does not exist")
    return (folder / name).read_text()


def _edited(source: str, edits: tuple[Edit, ...]) -> str:
    return kernel_of(Edits(words="", edits=edits), source).source


def _suite(turn: ScriptedTester, task: Task) -> TestSuite:
    return TestSuite(
        words=turn.words, cases=tuple(_test_case(dict(row), task) for row in turn.cases)
    )


def _test_case(row: dict[str, Any], task: Task) -> TestCase:
    """A flat row, {tokens, d, dtype, ...}, with the task's type variables beside T by name;
    legality is checked in the chat, as for any model."""
    dims = [{"name": name, "value": row.pop(name)} for name in task.dims if name in row]
    types = [{"name": name, "dtype": row.pop(name)} for name in task.variables if name in row]
    found = {"values": "normal", "why": "", **row, "dims": dims, "types": types}
    return TestCase.model_validate(found)
