"""The command `astra-chat run`: its options, and what it exits with."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from astra_chat.cli.exit_codes import CHECK_FAILED, INTERRUPTED, WAITING
from astra_chat.display.notes import note

NOT_OF_RUN = ("approve", "as_json", "quiet")
"""Options of the command that `astra_chat.run` does not have."""
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def register(app: typer.Typer) -> None:
    app.command("run")(run)


def run(
    context: typer.Context,
    task: Annotated[
        str | None,
        typer.Argument(metavar="TASK", help="A shipped task's name, or a task folder."),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            help="Model backend: openai:MODEL[,ROLE=openai:MODEL...], mailbox:DIR, scripted,"
            " transcript[:FILE], record:FILE:..., auto:FILE:... or replay:FILE. Default:"
            " transcript, the recorded run in the task's folder, with its own options where none"
            " are given, or where none fits scripted."
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Server with an OpenAI-compatible API: http://HOST:PORT/v1."
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(help="Device to run kernels on: auto (default), cuda, cuda:N or virtual."),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(help="GPU model to estimate for on the virtual GPU: h200, h100, ..."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Output folder; default: a new one in transcripts/."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Maximum number of plans to try; default: 5.")
    ] = None,
    cases: Annotated[str | None, typer.Option(help="Timed cases: demo or bench.")] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Baseline to compare with: sglang (default) or paper.")
    ] = None,
    approve: Annotated[
        bool | None,
        typer.Option("--approve/--no-approve", help="Ask before a candidate is run or accepted."),
    ] = None,
    approver: Annotated[
        str | None,
        typer.Option(
            metavar="WHO",
            help="Who approves: ask (the terminal, as --approve), detached (decide later with"
            " astra-chat approve), a FILE.toml of decisions, a recorded run, or none.",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Limits of the run, separated by commas: tokens=N, usd=N, wall_s=N,"
            " evaluations=N, gpu_s=N; none for no limit."
        ),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            help="Search strategy: best (default), paper, beam:K, beam:KxN, tree or single."
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="Where kernels are judged: local (default); ssh:HOST; ray[:ADDRESS], by the GPUs"
            " of a Ray cluster; or detached: by `astra-chat judge work` on another machine, while"
            " the run waits.",
        ),
    ] = None,
    stop_at: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT", help="Stop at this share of the physical limit; 0 for none."
        ),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(help="Stop after so many rounds in a row without a gain; 0 for any."),
    ] = None,
    mutants: Annotated[
        int | None,
        typer.Option(help="Seeded bugs that score the tester's cases; default: 12, 0 for none."),
    ] = None,
    tune: Annotated[
        int | None,
        typer.Option(
            metavar="POINTS",
            help="Tune constants that the coder marks: so many points of a correct candidate are"
            " ranked, the best is judged; default: 0, none.",
        ),
    ] = None,
    seed: Annotated[
        str | None,
        typer.Option(
            metavar="HEX",
            help="Root of all that the judge draws: up to 32 hex digits. Fresh by default, and"
            " printed when the run has ended.",
        ),
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Run untrusted code even where it cannot be isolated.")
    ] = False,
    no_wait: Annotated[
        bool,
        typer.Option(
            "--no-wait",
            help="With mailbox:DIR: stop, to be resumed, where an answer is not there yet.",
        ),
    ] = False,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Continue a run that was interrupted, failed, or reached its budget.",
        ),
    ] = None,
    branch: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Start a new run from a recorded one, from its end or --from a round.",
        ),
    ] = None,
    after_round: Annotated[
        int | None,
        typer.Option(
            "--from",
            "--rewind",
            metavar="ROUND",
            help="Go back to the end of this round, in a new folder; 0 is the baseline.",
        ),
    ] = None,
    accept_recorded_options: Annotated[
        bool,
        typer.Option(
            "--accept-recorded-options",
            help="With --resume and --branch: use the models, addresses, key variables and budgets"
            " that FILE records.",
        ),
    ] = False,
    as_json: JsonOption = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print no progress, only the result.")
    ] = False,
) -> None:
    """Optimize the kernel of TASK, and record the run."""
    given = {name: value for name, value in context.params.items() if name not in NOT_OF_RUN}
    if approver is None and approve is not None:
        given["approver"] = "ask" if approve else "none"
    hold(given, as_json, quiet)


def hold(given: dict[str, Any], as_json: bool = False, quiet: bool = False) -> None:
    """Hold a run by the arguments of `astra_chat.run`, print what comes of it, and exit by it."""
    from astra_chat.display.output_modes import show_for
    from astra_chat.session.api import run as run_session

    show = show_for(as_json, quiet)
    try:
        result = run_session(**given, events=show)
    finally:
        show.close()
    with suppress(KeyboardInterrupt):  # one Ctrl-C too many only cuts the result short
        show.end(result.summary, result.transcript)
    ended = result.summary.ended
    if ended is not None and ended.reason == "interrupted":
        note(f"resume with: {result.resume_with}")
        raise typer.Exit(INTERRUPTED)
    if ended is not None and ended.reason in ("budget", "evaluations"):
        note(f"with a larger budget, resume with: {result.resume_with}")
    if ended is not None and ended.reason == "waiting":
        if result.question is not None:
            box, name = result.question.parent, result.question.name
            note(f"answer with: astra-chat mailbox answer {box} {name} FILE")
            note(f"then resume with: {result.resume_with}")
        elif result.job is not None:
            judge = shlex.join(["astra-chat", "judge", "work", str(result.folder)])
            note(f"judge with: {judge}; then resume with: {result.resume_with}")
        else:
            note(f"decide with: astra-chat approve {result.transcript}")
        raise typer.Exit(WAITING)
    if ended is not None and ended.reason == "baseline_failed":
        raise typer.Exit(CHECK_FAILED)
