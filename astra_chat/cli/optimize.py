"""`astra-chat optimize`: from a kernel file of the user's repository to a patch for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Unpack

import typer

from astra_chat.arguments import present
from astra_chat.cli.captured_calls import MapOption, OperatorOption, with_calls
from astra_chat.cli.exit_codes import CHECK_FAILED
from astra_chat.cli.new import (
    CasesOption,
    DefineOption,
    FolderOption,
    FunctionOption,
    LauncherOption,
    ReferenceOption,
    RootOption,
    reference_function,
    require_complete,
)
from astra_chat.cli.options import options
from astra_chat.cli.run import exit_by, held
from astra_chat.display.notes import note
from astra_chat.options import RunArguments, declared

if TYPE_CHECKING:
    from astra_chat.optimize.own_folder import OwnFolder
    from astra_chat.transcript.reader import Transcript


class _How(NamedTuple):
    """How the task is made: options of `new`."""

    function: str | None
    calls: Path | None
    calls_of: str | None
    map_: list[str] | None
    reference: str | None
    folder: list[Path] | None
    root: Path | None
    define: list[str] | None
    launcher: Path | None

    @property
    def texts(self) -> dict[str, tuple[str, ...]]:
        """What was given, by the options' names."""
        names = (
            *("--op", "--calls", "--calls-of", "--map", "--reference"),
            *("-I", "--root", "-D", "--launcher"),
        )
        lists = [one if isinstance(one, list) else [one] for one in self]
        return {
            name: tuple(map(str, given))
            for name, given in zip(names, lists, strict=True)
            if given != [None]
        }


OF_A_RUN_ALONE = ("out", "resume", "branch", "after_round", "accept_recorded_options")
OWN = "file into function calls calls_of map_ reference folder root define launcher"
NAMES = " ".join(name for name in declared(RunArguments) if name not in OF_A_RUN_ALONE)


def register(app: typer.Typer) -> None:
    app.command(short_help="Optimize a kernel file in your repository, and write a patch.")(
        optimize
    )


@options(RunArguments, f"{OWN} {NAMES} quiet")
def optimize(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The CUDA file to optimize.", callback=present)
    ],
    into: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="DIR", help="Output folder; default: astra-optimize/NAME."
        ),
    ] = None,
    function: FunctionOption = None,
    calls: CasesOption = None,
    calls_of: OperatorOption = None,
    map_: MapOption = None,
    reference: ReferenceOption = None,
    folder: FolderOption = None,
    root: RootOption = None,
    define: DefineOption = None,
    launcher: LauncherOption = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only the result, without progress.")
    ] = False,
    **given: Unpack[RunArguments],
) -> None:
    """Optimize the kernel in FILE of your repository: create its task, run the chat on it, and
    write a patch for `git apply` with its evidence. It writes only to DIR; run the same
    command again to continue. It exits with 1 if there is no patch."""
    from astra_chat.optimize.own_folder import DEFAULT, OwnFolder, name_of
    from astra_chat.optimize.repository import place_of, warning
    from astra_chat.optimize.written import written

    place, name = place_of(file), name_of(file, function)
    own = OwnFolder(into or DEFAULT / name)
    how = _How(function, calls, calls_of, map_, reference, folder, root, define, launcher)
    if own.begun is None:
        if words := warning(place):
            note(words)
        own.begin(place, how.texts, lambda made: _make(name, file, how, made, own.task))
    begun = own.require_same(place, how.texts)
    _require_complete(own.task)
    transcript = _run(own, {**given}, quiet)
    left = written(own, begun, place, transcript)
    for line in left.lines:
        print(line)
    if not left.patched:
        raise typer.Exit(CHECK_FAILED)


def _make(name: str, file: Path, how: _How, made: Path, called: Path) -> None:
    """Make the task in the folder `made`, which will be `called`. Raises BadInput."""
    from astra_chat.tools.new.create import new_task
    from astra_chat.tools.new.project import Search
    from astra_chat.tools.new.trial import tried_again
    from astra_vgpu.ground.errors import BadInput, reading

    if file.suffix in (".py", ".json"):
        raise BadInput(
            f"{file} is not a CUDA file: create a task from it with `astra-chat new`, then"
            " use `astra-chat run`"
        )
    if how.calls:
        with reading(how.calls), how.calls.open():
            pass  # before anything is built
    function_of_pytorch = reference_function(how.reference)
    search = Search(tuple(how.folder or ()), how.root, tuple(how.define or ()))
    _, origin, notes = new_task(
        name, [file], how.function, search=search, folder=made, launcher=how.launcher
    )
    if function_of_pytorch:
        function_of_pytorch.put_into(made)
    if how.calls:
        _put_calls(how.calls, how, made, called)
    if how.calls:
        notes = tried_again(made, notes)
    print(f"created {called}/ from {origin}")
    for words in notes:
        print(f"tried: {words}")


def _put_calls(calls: Path, how: _How, made: Path, called: Path) -> None:
    from astra_vgpu.ground.errors import BadInput

    try:
        with_calls(made, calls, how.calls_of, how.map_ or (), domain_too=True, called=called)
    except BadInput as error:
        text = str(error).replace(str(made), str(called))
        raise BadInput(
            f"{text}; without --calls, you can create the task and complete it by hand"
        ) from None


def _require_complete(task: Path) -> None:
    """Raise BadInput with each place of the task that is left to a person."""
    from astra_chat.tools.new.unfinished import launcher_problem
    from astra_chat.tools.task.folder import load_task
    from astra_vgpu.ground.errors import BadInput

    try:
        require_complete(task, str(task))
        if problem := launcher_problem(load_task(task)):
            raise BadInput(f"{task}/{problem}")
    except BadInput as error:
        error.add_note(f"to see all problems: astra-chat tasks check {task}")
        error.add_note("then run the same command again: it continues from there")
        raise


def _run(own: OwnFolder, given: dict[str, Any], quiet: bool) -> Transcript:
    """Run the chat on the task, resume its last run, or take that as it is if it has ended."""
    from astra_chat.session.request import split
    from astra_chat.session.resume import at_end, resumed
    from astra_chat.tools.task.folder import load_task
    from astra_chat.transcript.reader import read

    arguments = {**given, "task": own.task, "out": own.next_run}
    if own.runs:
        past, task = resumed(own.runs[-1]), load_task(own.task)
        before = past.transcript
        if before.header.task.id != task.id:
            note(f"the task has changed since {own.runs[-1]}: starting {own.next_run}")
        elif before.ended is None or before.ended.reason != "baseline_failed":
            if at_end(past, before.options.changed(split(given)[0]).limits):
                return before
            arguments |= {"out": None, "resume": before.path}
    result = held(arguments, quiet=quiet, patch=True)
    exit_by(result, "the same command")
    return read(result.transcript)
