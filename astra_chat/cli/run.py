"""The command `astra-chat run`: its options, and what it exits with."""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer

from astra_chat.cli.exit_codes import CHECK_FAILED, INTERRUPTED, WAITING
from astra_chat.cli.options import JsonOption, known_task, options
from astra_chat.display.notes import note
from astra_chat.options import RunArguments, declared
from astra_vgpu.ground.freed_memory import keep_freed_memory

if TYPE_CHECKING:
    from astra_chat.session.results import RunResult


def register(app: typer.Typer) -> None:
    app.command("run")(run)


NAMES = " ".join(declared(RunArguments)).replace("approver", "approve approver")


@options(RunArguments, f"{NAMES} as_json quiet verbose")
def run(
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="TASK",
            help="A shipped task's name, or a task folder.",
            callback=known_task,
        ),
    ] = None,
    approve: Annotated[
        bool | None,
        typer.Option("--approve/--no-approve", help="Ask before a candidate is run or accepted."),
    ] = None,
    as_json: JsonOption = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only the result, without progress.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="Print the agents' messages in full, even on a terminal."),
    ] = False,
    **given: Unpack[RunArguments],
) -> None:
    """Optimize the kernel of TASK, and record the run."""
    if given.get("approver") is None and approve is not None:
        given["approver"] = "ask" if approve else "none"
    hold({"task": task, **given}, as_json, quiet, verbose)


def hold(
    given: dict[str, Any], as_json: bool = False, quiet: bool = False, verbose: bool = False
) -> None:
    """Run by the arguments of `astra_chat.run`, print what comes of it, and exit by it."""
    result = held(given, as_json, quiet, verbose)
    exit_by(result, result.resume_with)


def held(
    given: dict[str, Any],
    as_json: bool = False,
    quiet: bool = False,
    verbose: bool = False,
    *,
    patch: bool = False,
) -> RunResult:
    """Run by the arguments of `astra_chat.run`, and print what comes of it. `patch`: a patch is
    made of it next."""
    keep_freed_memory()
    replayed = str(given.get("models") or "").startswith("replay:")
    if given.get("judge") in (None, "local") and not replayed:
        _begin_servers()
    from astra_chat.display.output_modes import show_for
    from astra_chat.session.api import run as run_session

    show = show_for(as_json, quiet, verbose, patch=patch)
    try:
        result = run_session(**given, events=show)
    finally:
        show.close()
    with suppress(KeyboardInterrupt):  # one Ctrl-C too many only cuts the result short
        show.end(result.summary, result.transcript)
    return result


def _begin_servers() -> None:
    """Let the judge's processes load PyTorch while this one loads AutoGen: each takes seconds."""
    from astra_chat.tools.sandbox.policy import SandboxPolicy
    from astra_chat.tools.system.forked import TORCH, VIRTUAL
    from astra_chat.tools.system.subprocesses import child_environment

    for server in (TORCH, VIRTUAL):
        server.begin(child_environment(SandboxPolicy().environment()))


def exit_by(result: RunResult, resume_with: str) -> None:
    """Say how a run goes on that has not come to its end, and exit by it."""
    ended = result.summary.ended
    if ended is not None and ended.reason == "interrupted":
        note(f"resume with: {resume_with}")
        raise typer.Exit(INTERRUPTED)
    if ended is not None and ended.reason in ("budget", "evaluations"):
        note(f"to resume with a larger budget: {resume_with}")
    if ended is not None and ended.reason == "waiting":
        if result.question is not None:
            box, name = result.question.parent, result.question.name
            note(f"answer with: astra-chat mailbox answer {box} {name} FILE")
            note(f"then resume with: {resume_with}")
        elif result.job is not None:
            judge = shlex.join(["astra-chat", "judge", "work", str(result.folder)])
            note(f"judge with: {judge}; then resume with: {resume_with}")
        else:
            note(f"decide with: astra-chat approve {result.transcript}")
        raise typer.Exit(WAITING)
    if ended is not None and ended.reason == "baseline_failed":
        raise typer.Exit(CHECK_FAILED)
