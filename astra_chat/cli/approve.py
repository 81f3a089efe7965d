"""The command `astra-chat approve`: decides for a run that waits, hours later and elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from astra_chat.tools.errors import BadInput

if TYPE_CHECKING:
    from astra_chat.agents.approval import Word


def register(app: typer.Typer) -> None:
    app.command("approve")(approve)


def approve(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Transcript, or folder, of a run that waits.")
    ],
    yes: Annotated[bool, typer.Option("--approve", help="Run it, or accept it.")] = False,
    all_of_them: Annotated[
        bool, typer.Option("--all", help="Approve it and whatever follows.")
    ] = False,
    reject: Annotated[
        str | None, typer.Option(metavar="WHY", help="Reject it; the planner is told why.")
    ] = None,
    edit: Annotated[
        Path | None, typer.Option(metavar="FILE.cu", help="Put this source in its place.")
    ] = None,
    source: Annotated[
        bool, typer.Option("--source", help="Print the candidate's source, to be edited.")
    ] = False,
    go_on: Annotated[bool, typer.Option("--resume", help="Let the run go on at once.")] = False,
) -> None:
    """Show what a run waits for, and decide."""
    from astra_chat.display.approval_view import show_question
    from astra_chat.display.console import console
    from astra_chat.session.approvers import Approver, Given, Terminal
    from astra_chat.session.pending_approval import record, waiting

    said: dict[Word, bool] = {
        "approve": yes,
        "approve_all": all_of_them,
        "reject": reject is not None,
        "edit": edit is not None,
    }
    answers = [word for word, given in said.items() if given]
    if len(answers) > 1:
        raise BadInput("give one of --approve, --all, --reject WHY, --edit FILE.cu")
    if source and (answers or go_on):
        raise BadInput("--source decides nothing: give it alone")
    run = waiting(file)
    if source:
        sys.stdout.write(run.question.kernel.source)
        return
    approver: Approver
    if answers:
        approver = Given(answers[0], reject or "", edit)
    elif sys.stdin.isatty():
        approver = Terminal(sys.stdin, sys.stdout)
    else:
        show_question(console(), run.question)
        print("decide by --approve, --all, --reject WHY or --edit FILE.cu (--source prints one)")
        return
    answer = approver.decide(run.question)
    if isinstance(answer, str):
        print("nothing was decided")
        return
    record(run, answer)
    if go_on:
        from astra_chat.cli.main import run as run_command

        run_command(resume=run.transcript.path)
    else:
        print(f"decided; resume with: astra-chat run --resume {run.transcript.path}")
