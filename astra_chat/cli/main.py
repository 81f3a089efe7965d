"""The command `astra-chat`. It loads neither AutoGen nor torch: commands import their own."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from contextlib import suppress
from enum import Enum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from astra_chat.cli import streams
from astra_chat.cli.exit_codes import CHECK_FAILED, EPILOG, INTERRUPTED, WAITING, exit_code_of
from astra_chat.display.notes import note
from astra_chat.tools.system.cache_size import limit_bytes
from astra_chat.version import __version__

app = typer.Typer(
    name="astra-chat",
    help="A group chat of agents optimizes CUDA kernels, and a judge checks every claim.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=EPILOG,
)

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


class LogLevel(Enum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def _version(wanted: bool) -> None:
    if wanted:
        print(f"astra-chat {__version__}")
        raise typer.Exit


@app.callback()
def log(
    log_level: Annotated[
        LogLevel, typer.Option(help="Minimum log level on stderr.")
    ] = LogLevel.WARNING,
    cache_limit: Annotated[
        str | None,
        typer.Option(
            envvar="ASTRA_CACHE_LIMIT", metavar="SIZE", help="Size limit of the build cache: 4G."
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", is_eager=True, callback=_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """A group chat of agents optimizes CUDA kernels, and a judge checks every claim."""
    if cache_limit is not None:
        os.environ["ASTRA_CACHE_LIMIT"] = cache_limit  # child processes keep to it too
        limit_bytes()
    logger = logging.getLogger("astra_chat")
    logger.setLevel(log_level.name)
    if not any(isinstance(handler, _Notes) for handler in logger.handlers):
        logger.addHandler(_Notes())


class _Notes(logging.Handler):
    """Log lines in the form of the program's other messages on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


@app.command()
def run(
    task: Annotated[
        str | None,
        typer.Argument(metavar="TASK", help="A shipped task's name, or a task folder."),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            help="Model backend: scripted (default), openai:MODEL[,ROLE=openai:MODEL...],"
            " record:FILE:..., auto:FILE:..., replay:FILE or transcript:FILE."
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
        bool, typer.Option("--approve", help="Ask before a candidate is run or accepted.")
    ] = False,
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
    from astra_chat.display.output_modes import show_for
    from astra_chat.session.api import run as run_session

    show = show_for(as_json, quiet)
    try:
        result = run_session(
            task,
            models=models,
            base_url=base_url,
            device=device,
            gpu=gpu,
            out=out,
            rounds=rounds,
            cases=cases,
            baseline=baseline,
            approver=approver or ("ask" if approve else None),
            budget=budget,
            strategy=strategy,
            stop_at=stop_at,
            patience=patience,
            mutants=mutants,
            seed=seed,
            trust=trust,
            resume=resume,
            branch=branch,
            after_round=after_round,
            accept_recorded_options=accept_recorded_options,
            events=show,
        )
    finally:
        show.close()
    with suppress(KeyboardInterrupt):  # one Ctrl-C too many only cuts the result short
        show.end(result.summary, result.transcript)
    ended = result.summary.ended
    if ended is not None and ended.reason == "interrupted":
        note(f"resume with: {result.resume_with}")
        raise typer.Exit(INTERRUPTED)
    if ended is not None and ended.reason == "budget":
        note(f"with a larger budget, resume with: {result.resume_with}")
    if ended is not None and ended.reason == "waiting":
        note(f"decide with: astra-chat approve {result.transcript}")
        raise typer.Exit(WAITING)
    if ended is not None and ended.reason == "baseline_failed":
        raise typer.Exit(CHECK_FAILED)


def _register_others() -> None:
    """Commands that live with what they command; each module offers register(app)."""
    for name in (
        "cli.replay",
        "report.command",
        "cli.approve",
        "cli.judge",
        "cli.new",
        "cli.models",
        "cli.doctor",
        "cli.cache",
    ):
        import_module(f"astra_chat.{name}").register(app)


_register_others()


def main() -> None:
    """Entry point of the program. SIGTERM ends it as Ctrl-C does, children and all."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    streams.prepare()
    sys.exit(exit_code_of(partial(app, prog_name="astra-chat")))
