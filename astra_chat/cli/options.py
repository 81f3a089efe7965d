"""Options as typer has them: those of astra_chat/options.py, and what several commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args

import typer

from astra_chat.arguments import present
from astra_chat.cli.setting_defaults import without_conflicts
from astra_chat.options import Declared, EvaluateOptions, declared, takes
from astra_chat.tools.task.shipped import task_folder

Command = TypeVar("Command", bound=Callable[..., Any])
RECORDED = ("resume", "branch")
"""Options that name a recorded run."""


def _info(one: Declared) -> Any:
    flags = one.flags if one.option.flags or one.kind is bool else ()
    found = present if one.name in RECORDED else None
    return typer.Option(*flags, help=one.option.help, metavar=one.option.metavar, callback=found)


def _typed(one: Declared) -> Any:
    """An option as typer reads it, which knows of one type beside None: of text and paths paths."""
    kind = Path | None if set(get_args(one.kind)) == {str, Path, NoneType} else one.kind
    return Annotated[kind, _info(one)]


def options(options: type, names: str) -> Callable[[Command], Command]:
    """Gives a command these options, in this order, with the settings below them; what it has no
    parameter for comes as `**options`."""
    given = takes(options, names.split(), _typed)

    def made(command: Command) -> Command:
        called = given(command)

        @wraps(called)
        def with_settings(context: typer.Context, *args: Any, **typed: Any) -> Any:
            return called(*args, **without_conflicts(context, typed))

        own = Parameter("context", Parameter.POSITIONAL_ONLY, annotation=typer.Context)
        public = signature(called)
        public = public.replace(parameters=[own, *public.parameters.values()])
        with_settings.__signature__ = public  # type: ignore[attr-defined]
        with_settings.__annotations__ = {**called.__annotations__, "context": typer.Context}
        return with_settings  # type: ignore[return-value]

    return made


T = TypeVar("T", str, str | None)


def known_task(task: T) -> T:
    """A callback of tasks. Raises BadInput."""
    if task is not None:
        task_folder(task)
    return task


TaskArgument = Annotated[
    str,
    typer.Argument(
        metavar="TASK", help="A shipped task's name, or a task folder.", callback=known_task
    ),
]
KernelArgument = Annotated[
    Path,
    typer.Argument(
        metavar="KERNEL",
        help="The kernel: one .cu file, a Triton .py file, or - for stdin.",
        callback=present,
    ),
]
RunsArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="DIR", help="Folders that contain runs, at any depth.", callback=present
    ),
]
_JUDGE = declared(EvaluateOptions)
DeviceOption = Annotated[str, _info(_JUDGE["device"])]
TrustOption = Annotated[bool, _info(_JUDGE["trust"])]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document to stdout.")]
