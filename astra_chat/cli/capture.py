"""`astra-chat capture`: the calls of an operator in the user's own program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from astra_chat.cli.exit_codes import CHECK_FAILED
from astra_chat.display.notes import note


def register(app: typer.Typer) -> None:
    app.command(short_help="Capture the calls of an operator in your own program.")(capture)


def capture(
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- PROGRAM ...", help="The command that starts your program."),
    ],
    op: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="module:function, module:Class.method or torch.ops.space.name; may be repeated.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE", help="File to write the calls to.")
    ] = Path("calls.json"),
    contents: Annotated[
        bool,
        typer.Option(
            "--contents", help="Save the tensors of the first call of each kind in FILE.contents/."
        ),
    ] = False,
) -> None:
    """Run PROGRAM and record its calls of an operator: shapes, strides, dtypes, views of one
    buffer, ranges of values, and how often each call was made. `new --calls` and
    `tasks update --calls` turn the recorded calls into cases."""
    from astra_chat.tools.capture.calls import calls_text
    from astra_chat.tools.capture.findings import (
        contradictions,
        integer_ranges,
        summary,
        unseen,
        views,
    )
    from astra_chat.tools.capture.program import capture as captured
    from astra_chat.tools.capture.program import operator_name
    from astra_chat.tools.system.files import write_whole
    from astra_vgpu.ground.errors import BadInput

    if not out.parent.is_dir():
        raise BadInput(f"there is no folder {out.parent}; nothing was run")
    folder = out.with_name(f"{out.name}.contents") if contents else None
    calls = captured(command, list(dict.fromkeys(map(operator_name, op))), folder)
    write_whole(out, calls_text(calls).encode())
    for operator in calls.operators:
        for line in summary(operator):
            print(line)
        for line in (*views(operator), *integer_ranges(operator)):
            print(f"  {line}")
        for line in contradictions(operator):
            note(line)
    for line in unseen(calls):
        note(line)
    print(f"wrote {out}")
    if calls.ended != "exit code 0":
        raise typer.Exit(CHECK_FAILED)
