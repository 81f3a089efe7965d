"""`astra-chat tasks`: the tasks there are, what one demands, and whether it is fit for judging."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from astra_chat.cli.captured_calls import CallsOption, MapOption, OperatorOption, with_calls
from astra_chat.cli.exit_codes import CHECK_FAILED
from astra_chat.cli.options import JsonOption, TaskArgument, options
from astra_chat.options import JudgeOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from astra_chat.tools.task.folder import Task

LIST_SCHEMA, TASK_SCHEMA = "astra-chat/tasks/1", "astra-chat/task/1"
REPORT_SCHEMA = "astra-chat/task-report/1"

app = typer.Typer()

MutantsOption = Annotated[
    int,
    typer.Option(
        min=0,
        help=(
            "Number of seeded bugs used to score the check cases, drawn from all that fit the"
            " baseline; 0: none."
        ),
    ),
]


@app.callback(invoke_without_command=True)
def tasks(context: typer.Context, as_json: JsonOption = False) -> None:
    """List the tasks that ship with Astra, show one, or check that one is fit for judging."""
    if context.invoked_subcommand is None:
        list_tasks(as_json)


@app.command("list")
def list_tasks(as_json: JsonOption = False) -> None:
    """List the tasks that ship with Astra."""
    from astra_chat.display.tables import print_rows
    from astra_chat.tools.task.folder import find_task, task_names
    from astra_chat.tools.task.shipped import ranks_task_names

    found = [find_task(name) for name in (*task_names(), *ranks_task_names())]
    if as_json:
        documents = [
            {"name": task.name, "summary": task.summary, "dtypes": task.dtypes} for task in found
        ]
        print(json.dumps({"schema": LIST_SCHEMA, "tasks": documents}, indent=2))
        return
    rows = [(task.name, task.summary) for task in found]
    print_rows(("task", "what it computes"), rows, one_line=True)


@app.command(short_help="Show the contract of a task.")
def show(task: TaskArgument, as_json: JsonOption = False) -> None:
    """Show the contract of a task: launcher, arguments, valid values, cases, tolerance."""
    from astra_chat.tools.task.folder import find_task

    found = find_task(task)
    if as_json:
        contract = found.model_dump(mode="json", by_alias=True)
        print(json.dumps({"schema": TASK_SCHEMA, "task": contract}, indent=2))
    else:
        print("\n".join(_contract(found)))


@app.command(short_help="Check that a task is fit for judging.")
@options(JudgeOptions, "device gpu mutants trust seed as_json")
def check(
    task: TaskArgument,
    device: str = "auto",
    gpu: str | None = None,
    mutants: MutantsOption = 24,
    trust: bool = False,
    seed: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="Seed for the drawn cases; default: a fresh one."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check that a task is fit for judging: its baseline is correct, and trivial outputs and seeded
    bugs are detected."""
    from astra_chat.cli.new import complete_task
    from astra_chat.display.work_progress import work_progress
    from astra_chat.tools.entropy import Entropy
    from astra_chat.tools.progress import Progress, StepCount
    from astra_chat.tools.system.devices import pick_device
    from astra_chat.tools.task_validation import check_task

    picked = pick_device(device, gpu)
    found = complete_task(task, picked, trust)
    count = StepCount()
    with work_progress() as tell:

        def heard(done: int, total: int, text: str) -> None:
            done, total = count.shown(done, total, text)
            tell(Progress(step="check", done=done, total=total, text=text))

        report = check_task(found, picked, heard, mutants, trust, Entropy(seed))
    lines = report.lines()
    if as_json:
        head = {"schema": REPORT_SCHEMA, "task": found.name, "fit": report.fit}
        print(json.dumps({**head, "lines": lines}, indent=2))
    else:
        print("\n".join(lines))
    if not report.fit:
        raise typer.Exit(CHECK_FAILED)


@app.command(short_help="Replace a task's bench list with captured calls.")
def update(
    task: Annotated[str, typer.Argument(metavar="TASK", help="Your own task folder.")],
    calls: CallsOption,
    calls_of: OperatorOption = None,
    map_: MapOption = None,
    domain: Annotated[
        bool,
        typer.Option(
            "--domain", help="Also replace the check and demo cases and the ranges of dims."
        ),
    ] = False,
) -> None:
    """Replace a task's bench list with captured calls, each weighted by how often it was made;
    the rest of task.toml stays as it is."""
    from astra_chat.tools.task.folder import task_names
    from astra_chat.tools.task.shipped import ranks_task_names
    from astra_vgpu.ground.errors import BadInput

    if task in [*task_names(), *ranks_task_names()]:
        raise BadInput(f"{task} ships with Astra: copy its folder, and update the copy")
    with_calls(Path(task), calls, calls_of, map_ or (), domain_too=domain)


def _contract(task: Task) -> Iterator[str]:
    """What a kernel has to do, for a reader."""
    from astra_chat.tools.task.case_text import case_text
    from astra_chat.tools.task.contract_text import (
        argument_text,
        domain_lines,
        precision_text,
        scalar_text,
        types_text,
    )
    from astra_chat.tools.task.launcher import prototype

    yield f"{task.name}: {task.summary}"
    yield f"folder: {task.folder}"
    yield f"launcher: {prototype(task)}"
    yield "arguments:"
    yield from (f"  {argument_text(arg)}" for arg in task.args)
    yield f"dtypes: {types_text(task)}"
    yield "dims:"
    yield from (f"  {line}" for line in domain_lines(task))
    yield from (f"scalar: {scalar_text(one)}" for one in task.scalars)
    yield "tolerance, against a float64 oracle:"
    for dtype, tolerance in task.tolerance.items():
        yield f"  {dtype}: rtol {tolerance.rtol:g}, atol {tolerance.atol:g}"
    yield f"precision: {precision_text(task)}"
    yield f"nvcc flags: {' '.join(task.flags)}"
    yield f"check cases: {len(task.check)}, the first {case_text(task.check[0], task.scalars)}"
    yield "timed cases:"
    yield from (
        f"  {case_text(case, task.scalars)}, weight {weight:g}" for case, weight in task.bench
    )
