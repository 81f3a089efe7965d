"""The command `astra-chat approve`: decides for a run that waits, perhaps hours later."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from astra_chat.arguments import present
from astra_chat.display.notes import note
from astra_vgpu.ground.errors import BadInput

if TYPE_CHECKING:
    from astra_chat.agents.approval import Choice
    from astra_chat.agents.turns import Turn


def register(app: typer.Typer) -> None:
    app.command("approve")(approve)


def _told(decided: Turn) -> str:
    """A decision in half a sentence."""
    from astra_chat.agents.approval import describe_approval
    from astra_chat.agents.turns import Approval

    payload = decided.payload
    return describe_approval(payload) if isinstance(payload, Approval) else "an edit"


def approve(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Transcript or folder of a waiting run.", callback=present
        ),
    ],
    yes: Annotated[
        bool, typer.Option("--approve", help="Approve the candidate: run it, or accept it.")
    ] = False,
    all_of_them: Annotated[
        bool, typer.Option("--all", help="Approve this candidate and all later ones.")
    ] = False,
    reject: Annotated[
        str | None, typer.Option(metavar="WHY", help="Reject, with a reason for the planner.")
    ] = None,
    edit: Annotated[
        Path | None, typer.Option(metavar="FILE.cu", help="Replace the candidate with this source.")
    ] = None,
    source: Annotated[
        bool, typer.Option("--source", help="Print the candidate's source without deciding.")
    ] = False,
    go_on: Annotated[bool, typer.Option("--resume", help="Resume the run immediately.")] = False,
) -> None:
    """Show the decision that a run is waiting for, and make it."""
    from astra_chat.approval.approvers import Approver, GivenDecision, Terminal
    from astra_chat.approval.pending import record, waiting
    from astra_chat.approval.view import show_question
    from astra_chat.display.console import console

    decisions: dict[Choice, bool] = {
        "approve": yes,
        "approve_all": all_of_them,
        "reject": reject is not None,
        "edit": edit is not None,
    }
    answers = [word for word, given in decisions.items() if given]
    if len(answers) > 1:
        raise BadInput("give one of --approve, --all, --reject WHY, --edit FILE.cu")
    if reject is not None and not reject.strip():
        raise BadInput("--reject WHY: give a reason, because the planner reads it")
    if source and (answers or go_on):
        raise BadInput("--source only prints the source: it cannot be combined with a decision")
    run = waiting(file)
    if run.decided is not None and not source:
        note(
            f"already decided, but the run has not used the decision yet: {_told(run.decided)};"
            " another decision replaces it"
        )
    if source:
        sys.stdout.write(run.question.kernel.source)
        return
    approver: Approver
    if answers:
        approver = GivenDecision(answers[0], reject or "", edit)
    elif sys.stdin.isatty():
        approver = Terminal(sys.stdin, sys.stdout)
    else:
        show_question(console(), run.question)
        print("decide with --approve, --all, --reject WHY or --edit FILE.cu; --source prints it")
        return
    answer = approver.decide(run.question)
    if isinstance(answer, str):
        print("no decision made")
        return
    record(run, answer)
    if go_on:
        from astra_chat.cli.run import hold

        hold({"resume": run.transcript.path})
    else:
        print(f"decided; resume with: astra-chat run --resume {run.transcript.path}")
