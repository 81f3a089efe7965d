"""`astra-chat gate`: may a changed kernel go in?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Unpack

import typer

from astra_chat.arguments import present
from astra_chat.cli.exit_codes import CHECK_FAILED
from astra_chat.cli.kernel_text import text_of
from astra_chat.cli.options import JsonOption, TaskArgument, options
from astra_chat.options import JudgeOptions

OldArgument = Annotated[
    Path, typer.Argument(metavar="OLD", help="The kernel before the change.", callback=present)
]
NewArgument = Annotated[
    Path, typer.Argument(metavar="NEW", help="The changed kernel.", callback=present)
]
JunitOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the result as a JUnit XML file.")
]
SarifOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the findings as a SARIF file.")
]


def register(app: typer.Typer) -> None:
    app.command(short_help="For CI: report whether a changed kernel is wrong or slower.")(gate)


@options(JudgeOptions, "device gpu cases trust engine seed junit sarif as_json")
def gate(
    task: TaskArgument,
    old: OldArgument,
    new: NewArgument,
    junit: JunitOption = None,
    sarif: SarifOption = None,
    as_json: JsonOption = False,
    **judging: Unpack[JudgeOptions],
) -> None:
    """Judge NEW against OLD, and exit with 1 if it is incorrect or slower.

    On a GPU, a slowdown is measured a second time on fresh inputs, and counts only if both
    measurements show it. On the virtual GPU, times are estimated, and the result is the same every
    time.
    """
    from rich.text import Text

    from astra_chat.display.console import console
    from astra_chat.display.work_progress import work_progress
    from astra_chat.judging.gate import gate as gated
    from astra_chat.judging.gate import junit as junit_file
    from astra_chat.judging.gate import sarif as sarif_file
    from astra_chat.tools.system.files import write_whole

    with work_progress(as_json) as tell:
        report = gated(task, text_of(old), text_of(new), on_progress=tell, **judging)
    for path, text in ((junit, junit_file), (sarif, sarif_file)):
        if path:
            write_whole(path, text(report, new.as_posix()))
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        out = console()
        style = "green" if report.passed else "bold red"
        # A terminal wraps between words; on a pipe a line stays one.
        out.print(Text(f"{report.verdict}: {report.why}", style), soft_wrap=not out.is_terminal)
    if not report.passed:
        raise typer.Exit(CHECK_FAILED)
