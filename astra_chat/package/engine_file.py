"""engine.toml of a task: where an engine calls this operator, and how its call becomes the
contract's.

Expressions are Python over the call's parameters, the names in `let`, and torch. They are written
into the package's hooks.py as they stand, and nothing of them is evaluated here.
"""

from __future__ import annotations

import ast
import builtins
import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import Field, ValidationError, model_validator

from astra_chat.tools.build.tvm_ffi_binding import parameter_names
from astra_chat.tools.task.folder import ENGINE_FILE, Task
from astra_chat.tools.types import Value
from astra_chat.tools.wording import invalid
from astra_vgpu.ground.errors import BadInput

Engine = Literal["sglang", "vllm"]
Expression = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]*$")]
KNOWN = {"torch", *dir(builtins)}


class Gate(Value):
    """A condition that the contract does not know of."""

    holds: Expression
    otherwise: str
    """Reason for which the original runs, as counters name it."""


class EngineHook(Value):
    """One place of an engine."""

    engine: Engine
    target: str = Field(pattern=r"^[\w.]+:[\w.]+$")
    """module:function, or module:Class.method."""
    versions: str
    """Versions of the engine whose code this was written for: ">=0.5.17,<0.5.18"."""
    signature: str
    """Parameters of the target as Python writes them, defaults included."""
    replaces: str
    """What runs there without the hook."""
    when: str = "True"
    """Which calls are of this operator at all; the others are not counted."""
    gates: tuple[Gate, ...] = ()
    let: dict[Name, Expression] = Field(default_factory=dict)
    """Values made before the launch, in order: outputs, workspaces, views."""
    arguments: dict[str, Expression]
    """The contract's parameters, in whatever order."""
    returns: Expression = "None"

    @model_validator(mode="after")
    def _readable(self) -> EngineHook:
        try:
            SpecifierSet(self.versions)
        except InvalidSpecifier as error:
            raise ValueError(f"versions: {error}") from None
        known = KNOWN | set(parameters_of(self.signature))
        for text in [self.when, *(gate.holds for gate in self.gates)]:
            _require_known(text, known)
        for name, text in self.let.items():
            _require_known(text, known)
            known.add(name)
        for text in [*self.arguments.values(), self.returns]:
            _require_known(text, known)
        return self


class Unserved(Value):
    """A kind of call that the engine makes and the original serves."""

    call: str
    because: str


class Upstream(Value):
    """Where the operator stands in SGLang's sources: for a change to them."""

    op: str = Field(pattern=r"^[a-z0-9_]+\.[a-z0-9_]+$")
    """Group and name in SGLang's registry of kernels: "moe.topk_softmax"."""
    module: str = ""
    """Module of what SGLang runs today."""
    call: str = ""
    """That called with the contract's names; empty: no one function does the same."""

    @property
    def group(self) -> str:
        return self.op.partition(".")[0]


class Today(Value):
    """What one candidate was measured to gain over the kernels that engines launch today."""

    candidate: str
    gpu: str
    date: date
    over: float = Field(gt=0)
    """Speed over the fastest of them on each timed case: the weighted mean, and its interval."""
    low: float = Field(gt=0)
    high: float = Field(gt=0)
    lowest: float = Field(gt=0)
    """That speed on the slowest case."""
    rivals: str
    """The kernels that were fastest on a case."""

    @property
    def words(self) -> str:
        return (
            f"{self.over:.2f}x ({self.low:.2f} to {self.high:.2f}) over the fastest kernels that"
            f" engines launched on {self.date} ({self.rivals}) on {self.gpu}; slowest case"
            f" {self.lowest:.2f}x"
        )


class EngineFile(Value):
    """What engine.toml says."""

    schema_version: Literal[1] = Field(alias="schema")
    hooks: tuple[EngineHook, ...] = ()
    unserved: tuple[Unserved, ...] = ()
    upstream: Upstream | None = None
    today: Today | None = None
    none: str = ""
    """Why no engine has a place for it."""

    @model_validator(mode="after")
    def _either(self) -> EngineFile:
        if bool(self.hooks) == bool(self.none):
            raise ValueError("define hooks, or explain under `none` why there is no place for them")
        return self


def read_engine_file(task: Task) -> EngineFile | None:
    """What a task's engine.toml says; None where it has none. Raises BadInput."""
    path = task.folder / ENGINE_FILE
    if not path.is_file():
        return None
    try:
        found = EngineFile.model_validate(tomllib.loads(path.read_text()))
    except ValidationError as error:
        raise BadInput("\n".join(f"{path}: {line}" for line in _problems(error))) from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: {error}") from None
    require_arguments(path, found, task)
    return found


def require_arguments(path: Path, found: EngineFile, task: Task) -> None:
    """Raises BadInput unless each hook gives what the task's launcher takes."""
    wanted = parameter_names(task)
    for hook in found.hooks:
        if set(hook.arguments) != set(wanted):
            raise BadInput(
                f"{path}: {hook.target}: its arguments are"
                f" {', '.join(sorted(hook.arguments))}, but the launcher takes"
                f" {', '.join(wanted)}"
            )


def parameters_of(signature: str) -> list[str]:
    """Names of the parameters, in order. Raises ValueError."""
    return [name for name, _ in _parameters(signature)]


def forwarded(signature: str) -> str:
    """The arguments by which a function of this signature calls one of the same."""
    return ", ".join(
        f"{name}={name}" if by_name else name for name, by_name in _parameters(signature)
    )


def _parameters(signature: str) -> Iterator[tuple[str, bool]]:
    try:
        tree = ast.parse(f"def f({signature}): pass").body[0]
    except SyntaxError:
        raise ValueError(f"signature: ({signature}) is not valid Python") from None
    assert isinstance(tree, ast.FunctionDef)
    given = tree.args
    if given.vararg or given.kwarg:
        raise ValueError("signature: list each parameter by name, without * or **")
    yield from ((one.arg, False) for one in (*given.posonlyargs, *given.args))
    yield from ((one.arg, True) for one in given.kwonlyargs)


def _require_known(text: str, known: set[str]) -> None:
    """Raise ValueError for what is no expression, or names what is not there."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        raise ValueError(f"'{text}' is not a Python expression") from None
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    if unknown := sorted({node.id for node in names} - known - own):
        raise ValueError(f"'{text}' uses {', '.join(unknown)}, which is not defined there")


def _problems(error: ValidationError) -> Iterator[str]:
    for one in error.errors(include_url=False):
        where = ".".join(map(str, one["loc"]))
        yield f"{where}: {invalid(one)}" if where else invalid(one)
