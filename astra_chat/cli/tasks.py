"""`astra-chat tasks`: which tasks there are; `tasks check NAME`: whether one is fit to judge by."""

from __future__ import annotations

from typing import Annotated

import typer

from astra_chat.cli.exit_codes import CHECK_FAILED

app = typer.Typer()

DeviceOption = Annotated[str, typer.Option(help="auto, cuda, cuda:N or virtual.")]
GpuOption = Annotated[str | None, typer.Option(help="Whose time to estimate: h200, h100, ...")]
NameArgument = Annotated[
    str, typer.Argument(metavar="TASK", help="A shipped task's name, or a task folder.")
]
TrustOption = Annotated[bool, typer.Option("--trust", help="Run it even if it cannot be isolated.")]
MutantsOption = Annotated[
    int, typer.Option(min=0, help="Seeded bugs of the baseline to try the check cases on.")
]


@app.callback(invoke_without_command=True)
def tasks(context: typer.Context) -> None:
    """List the tasks that ship with Astra; `tasks check` says whether one is fit to judge by."""
    if context.invoked_subcommand is not None:
        return
    from astra_chat.tools.task.folder import find_task, task_names

    for name in task_names():
        print(f"{name}: {find_task(name).summary}")


@app.command()
def check(
    task: NameArgument,
    device: DeviceOption = "auto",
    gpu: GpuOption = None,
    mutants: MutantsOption = 24,
    trust: TrustOption = False,
    seed: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="Draw the same cases again. Fresh by default."),
    ] = None,
) -> None:
    """Is a task fit to judge by: its baseline right, trivial outputs and seeded bugs noticed?"""
    from astra_chat.cli.new import advice, complete_task
    from astra_chat.tools.entropy import Entropy
    from astra_chat.tools.system.devices import pick_device
    from astra_chat.tools.task_validation import check_task

    picked = pick_device(device, gpu)
    found = complete_task(task, picked, trust)
    report = check_task(found, picked, mutants=mutants, trust=trust, entropy=Entropy(seed))
    print("\n".join([*report.lines(), *advice(found, picked, report)]))
    if not report.fit:
        raise typer.Exit(CHECK_FAILED)
