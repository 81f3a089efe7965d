"""`astra-chat mailbox`: the questions of runs with --models mailbox:DIR, and their answers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from astra_chat.cli.exit_codes import WAITING
from astra_chat.cli.options import JsonOption
from astra_chat.display.notes import note

if TYPE_CHECKING:
    from astra_chat.mailbox.questions import Question

LIST_SCHEMA = "astra-chat/questions/1"
ANSWER_SCHEMA = "astra-chat/answer/1"

app = typer.Typer(help="Answer the questions that runs put into a mailbox.", no_args_is_help=True)

DirArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="The mailbox: the folder of --models mailbox:DIR.")
]
RoleOption = Annotated[str | None, typer.Option(help="Consider only questions to this role.")]
RunOption = Annotated[str | None, typer.Option(help="Consider only questions from this run.")]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=0,
        metavar="S",
        help="Wait at most this many seconds for a question; default: no limit.",
    ),
]


def register(main: typer.Typer) -> None:
    main.add_typer(
        app, name="mailbox", short_help="Answer the questions that runs put into a mailbox."
    )


@app.command("next")
def next_question(
    box: DirArgument,
    role: RoleOption = None,
    run: RunOption = None,
    timeout_s: TimeoutOption = None,
    short: Annotated[
        bool,
        typer.Option(
            "--brief", help="Omit text that an earlier question to the same role already contained."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Wait for the next unanswered question, and print it.

    Exit code 4: no question is waiting, and no run can ask another one.
    """
    question = _awaited(box, role, run, timeout_s)
    prompt = _prompt(box, question, short)
    if as_json:
        print(json.dumps({**question_document(question), "prompt": prompt}, indent=2))
    else:
        sys.stdout.write(prompt)


def _awaited(
    box: Path, role: str | None = None, run: str | None = None, timeout_s: float | None = None
) -> Question:
    """The next question; says on the way what its run is busy with. Exits with 4 where none
    comes."""
    from astra_chat.mailbox.runs import NoRunLeft, wait_for_question

    try:
        question, why = wait_for_question(box, role, run, timeout_s, note), ""
    except NoRunLeft as ended:
        question, why = None, f", and none will come: {ended}"
    if question is None:
        note(f"no question in {box} is waiting for an answer{why}")
        raise typer.Exit(WAITING)
    return question


def _prompt(box: Path, question: Question, short: bool) -> str:
    from astra_chat.mailbox.brief import brief
    from astra_chat.mailbox.questions import questions

    return brief(question, questions(box)) if short else question.prompt


@app.command(short_help="Check an answer, and pass it to the run.")
def answer(
    box: DirArgument,
    name: Annotated[
        str, typer.Argument(metavar="ID", help="The question's ID, as printed by `mailbox next`.")
    ],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The reply as JSON, or with --words a kernel; - for stdin."
        ),
    ],
    words: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="What you did, in a sentence, if FILE is a kernel (.cu, .py)."
        ),
    ] = None,
    words_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the text for --words.")
    ] = None,
    answered_by: Annotated[
        str, typer.Option(metavar="NAME", help="Your name; the transcript records it.")
    ] = "",
    as_is: Annotated[
        bool,
        typer.Option("--as-is", help="Submit the answer even if it contradicts the run's facts."),
    ] = False,
    then_next: Annotated[
        bool,
        typer.Option(
            "--next", help="Afterwards, wait for the next question in the mailbox and print it."
        ),
    ] = False,
    short: Annotated[
        bool, typer.Option("--brief", help="With --next: like `mailbox next --brief`.")
    ] = False,
    timeout_s: TimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check an answer against the schema and the facts, and pass it to the run.

    With --next, exit code 4 means that no question follows, or none came in time.
    """
    from astra_chat.cli.kernel_text import text_of
    from astra_chat.mailbox.checking import answer as check_and_give
    from astra_chat.mailbox.files import MAX_BYTES
    from astra_chat.mailbox.questions import find
    from astra_vgpu.ground.errors import BadInput

    if timeout_s is not None and not then_next:
        raise BadInput("--timeout limits the wait for the next question: give it with --next")
    if words is not None and words_file is not None:
        raise BadInput("give --words TEXT or --words-file FILE, not both")
    if words_file is not None:
        words = text_of(words_file)
    if file.suffix in (".cu", ".py") and words is None:
        raise BadInput(f"{file} is a kernel: describe what you did with --words TEXT")
    checked = check_and_give(
        find(box, name),
        text_of(file, MAX_BYTES + 1),
        words=words,
        answered_by=answered_by,
        as_is=as_is,
    )
    document = {"schema": ANSWER_SCHEMA, "id": name, "checked": checked}
    if as_json and not then_next:
        print(json.dumps(document, indent=2))
    elif not as_json:
        print(f"given: {checked}", flush=True)
    if not then_next:
        return
    question = _awaited(box, timeout_s=timeout_s)
    prompt = _prompt(box, question, short)
    if as_json:
        following = {**question_document(question), "prompt": prompt}
        print(json.dumps({**document, "next": following}, indent=2))
    else:
        sys.stdout.write(f"\n{prompt}")


@app.command("list")
def list_questions(box: DirArgument, as_json: JsonOption = False) -> None:
    """List all questions of a mailbox, oldest first, with their state."""
    from astra_chat.display.tables import print_rows
    from astra_chat.mailbox.questions import questions

    found = questions(box)
    if as_json:
        documents = [{**one.meta.model_dump(mode="json"), "state": one.state} for one in found]
        print(json.dumps({"schema": LIST_SCHEMA, "questions": documents}, indent=2))
        return
    rows = [(one.id, one.state, one.meta.task, one.meta.role) for one in found]
    print_rows(("id", "state", "task", "role"), rows)


def question_document(question: Question) -> dict[str, Any]:
    """A question with all that is needed to answer it."""
    meta = question.meta.model_dump(mode="json")
    return {**meta, "state": question.state, "prompt": question.prompt, "reply": question.schema}
