"""Options of commands that take captured calls, and what became of these."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from astra_chat.arguments import present
from astra_chat.display.notes import note

CallsOption = Annotated[
    Path,
    typer.Option(
        "--calls", metavar="FILE", help="File that `astra-chat capture` wrote.", callback=present
    ),
]
OperatorOption = Annotated[
    str | None,
    typer.Option("--calls-of", metavar="NAME", help="Operator to use, if the file has several."),
]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="NAME=PARAMETER",
        help="Match a name in the contract (argument, dim or scalar) to one of the operator's"
        " parameters; for the operator's result, write 'result'. By default, parameters are"
        " matched by name, then by order.",
    ),
]


def with_calls(
    folder: Path,
    file: Path,
    op: str | None,
    map_texts: Sequence[str],
    *,
    domain_too: bool,
    called: Path | None = None,
) -> None:
    """Put the captured calls of a file into a task, and say what became of them; `called` is the
    folder as it is named. Raises BadInput."""
    from astra_chat.tools.capture.findings import integer_ranges
    from astra_chat.tools.capture.fused_op_trace import read_any
    from astra_chat.tools.capture.refresh import refresh

    calls = read_any(file)
    done = refresh(folder, calls, op, map_texts, source=file.name, domain_too=domain_too)
    for line in done.lines:
        note(line)
    for line in integer_ranges(calls.operator(op)) if domain_too else ():
        print(f"  {line}")
    lists = "bench, check, demo and dims" if domain_too else "bench"
    print(
        f"{called or folder}/task.toml: {lists} from {file}, {done.cases} timed cases, covering"
        f" {done.share:.1%} of the calls"
    )
