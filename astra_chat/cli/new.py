"""`astra-chat new`, and what `astra-chat tasks check` says of an unfinished task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from astra_chat.arguments import present
from astra_chat.cli.captured_calls import MapOption, OperatorOption, with_calls

if TYPE_CHECKING:
    from astra_chat.tools.new.reference_module import ReferenceFunction
    from astra_chat.tools.task.folder import Task
    from astra_chat.tools.types import Device


FunctionOption = Annotated[
    str | None,
    typer.Option("--op", help="Function to optimize, if the file has several."),
]
LauncherOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help=(
            "C++ file with a function that takes pointers and numbers and calls yours; needed if"
            " yours takes structs or objects. This file is compiled after the kernel's."
        ),
    ),
]
FolderOption = Annotated[
    list[Path] | None,
    typer.Option("-I", metavar="DIR", help="Folder to search for headers, as with nvcc's -I."),
]
RootOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Search this folder and its subfolders for headers that are not found elsewhere.",
    ),
]
DefineOption = Annotated[
    list[str] | None,
    typer.Option(
        "-D", metavar="NAME[=VALUE]", help="Macro to define, as the project's build does."
    ),
]
ReferenceOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="PyTorch function with the same result (or FILE.py:FUNCTION), used as the float64"
        " reference.",
    ),
]
CasesOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Take cases and ranges of dims from this file, written by `astra-chat capture`.",
        callback=present,
    ),
]


def register(app: typer.Typer) -> None:
    app.command()(new)


def new(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Name of the task and of its new folder."),
    ],
    sources: Annotated[
        list[Path],
        typer.Option(
            "--from",
            metavar="FILE",
            help="The kernel: a CUDA file (may be repeated), a folder of them, a"
            " flashinfer-bench Definition (.json), a Triton kernel (.py), or a PyTorch module"
            " (.py) in KernelBench's form.",
            callback=present,
        ),
    ],
    function: FunctionOption = None,
    folder: FolderOption = None,
    root: RootOption = None,
    define: DefineOption = None,
    launcher: LauncherOption = None,
    grid: Annotated[
        str | None,
        typer.Option(
            metavar="EXPRESSIONS",
            help="Grid of a Triton kernel, such as 'rows, ceil_div(n, BLOCK)'. Triton's machine"
            " code then becomes baseline.cu; this needs Triton but no GPU.",
        ),
    ] = None,
    constant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Value of a tl.constexpr of the Triton kernel; 'BLOCK=1024,2048,4096>=n' is the"
            " smallest of these that is at least n.",
        ),
    ] = None,
    warps: Annotated[int, typer.Option(help="num_warps of the Triton kernel.")] = 4,
    stages: Annotated[int | None, typer.Option(help="num_stages of the Triton kernel.")] = None,
    dtype: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TENSOR=DTYPE", help="Dtype of a tensor, if it differs from that of the case."
        ),
    ] = None,
    reference: ReferenceOption = None,
    calls: CasesOption = None,
    calls_of: OperatorOption = None,
    map_: MapOption = None,
) -> None:
    """Create a task folder from your own kernel, for you to complete."""
    from astra_chat.tools.new.create import new_task
    from astra_chat.tools.new.project import Search
    from astra_chat.tools.new.trial import tried_again
    from astra_chat.tools.new.triton_launch import dtypes_of, launch_of
    from astra_chat.tools.new.unfinished import marks
    from astra_chat.tools.task.shipped import task_names
    from astra_vgpu.ground.errors import BadInput

    function_of_pytorch = reference_function(reference)
    launch = launch_of(grid, constant or (), warps, stages)
    search = Search(tuple(folder or ()), root, tuple(define or ()))
    made, origin, notes = new_task(
        name, sources, function, launch, dtypes_of(dtype or ()), search, launcher=launcher
    )
    if function_of_pytorch:
        function_of_pytorch.put_into(made)
    shown = f"./{made}" if str(made) in task_names() else made  # else it means Astra's task
    print(f"created {shown}/ from {origin}")
    if calls:
        try:
            with_calls(made, calls, calls_of, map_ or (), domain_too=True)
        except BadInput as error:
            again = f"astra-chat tasks update {shown} --calls {calls} --domain"
            raise BadInput(
                f"{error}; {shown}/ was created without them; to add them: {again}"
            ) from None
    if calls:
        notes = tried_again(made, notes)
    if left := marks(made):
        print("Complete these places, in this order:")
    for place in left:
        print(f"  {shown}/{place}")
    for note in notes:
        print(f"tried: {note}")
    print(f"then: astra-chat tasks check {shown}")


def reference_function(text: str | None) -> ReferenceFunction | None:
    """Raises BadInput before anything is written."""
    from astra_chat.tools.new.reference_module import ReferenceFunction

    return ReferenceFunction(text) if text else None


def require_complete(folder: Path, name: str) -> None:
    """Raise BadInput with a note for each place that is left to a person."""
    from astra_chat.tools.new.unfinished import marks
    from astra_chat.tools.wording import counted
    from astra_vgpu.ground.errors import BadInput

    if left := marks(folder):
        error = BadInput(f"{name} is not complete: {counted(len(left), 'place')} to fill in:")
        for place in left:
            error.add_note(f"  {folder}/{place}")
        raise error


def complete_task(name: str, device: Device, trust: bool = False) -> Task:
    """Load a complete task: no mark is left, the launcher fits, the baseline builds.

    Raises BadInput with a note for each thing that is missing, and MissingDependency where it would
    run unisolated and is not trusted.
    """
    from astra_chat.tools.descriptions import describe_build
    from astra_chat.tools.evaluation import Built
    from astra_chat.tools.judge import Judge
    from astra_chat.tools.new.unfinished import launcher_problem
    from astra_chat.tools.task.folder import find_task
    from astra_chat.tools.task.shipped import task_folder
    from astra_vgpu.ground.errors import BadInput

    folder = task_folder(name)
    require_complete(folder, name)
    task = find_task(name)
    if problem := launcher_problem(task):
        raise BadInput(f"{folder}/{problem}")
    with Judge(task, device, trust=trust) as judge:
        report = judge.build(task.baseline)
    if not isinstance(report.result, Built):
        raise BadInput(f"{folder}/baseline.cu: {describe_build(report)}")
    return task
