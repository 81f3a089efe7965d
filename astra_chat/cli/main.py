"""The command `astra-chat`. It loads neither AutoGen nor torch: commands import their own."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from enum import Enum
from functools import partial
from importlib import import_module
from typing import Annotated

import typer

from astra_chat.cli import streams
from astra_chat.cli.exit_codes import EPILOG, exit_code_of
from astra_chat.cli.setting_defaults import defaults
from astra_chat.display.notes import note
from astra_chat.version import __version__
from astra_vgpu.ground.cache_size import limit_bytes
from astra_vgpu.ground.errors import BadInput

app = typer.Typer(
    name="astra-chat",
    help="Agents in a group chat optimize CUDA kernels; a judge checks every result.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=EPILOG,
)


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
    context: typer.Context,
    log_level: Annotated[
        LogLevel, typer.Option(help="Minimum log level on stderr.")
    ] = LogLevel.WARNING,
    cache_limit: Annotated[
        str | None,
        typer.Option(
            envvar="ASTRA_CACHE_LIMIT",
            metavar="SIZE",
            help="Size limit of the build cache, such as 4G.",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", is_eager=True, callback=_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """Agents in a group chat optimize CUDA kernels; a judge checks every result."""
    if cache_limit is not None:
        os.environ["ASTRA_CACHE_LIMIT"] = cache_limit  # child processes keep to it too
        try:
            limit_bytes()
        except BadInput as error:
            words = str(error).replace("ASTRA_CACHE_LIMIT=", "--cache-limit ", 1)
            source = context.get_parameter_source("cache_limit")
            typed = source is not None and source.name == "COMMANDLINE"
            raise BadInput(words if typed else str(error)) from None
    context.default_map = defaults(context.invoked_subcommand)
    logger = logging.getLogger("astra_chat")
    logger.setLevel(log_level.name)
    if not any(isinstance(handler, _Notes) for handler in logger.handlers):
        logger.addHandler(_Notes())


class _Notes(logging.Handler):
    """Log lines in the form of the program's other messages on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


def _register_others() -> None:
    """Commands that live with what they command; each module offers register(app)."""
    for name in (
        "cli.run",
        "cli.replay",
        "report.command",
        "verify.command",
        "viewer.command",
        "export.command",
        "package.command",
        "cli.approve",
        "cli.judge",
        "cli.beside_torch",
        "cli.gate",
        "step.command",
        "cli.judge_jobs",
        "cli.advance",
        "cli.campaign",
        "cli.tune",
        "cli.capture",
        "cli.new",
        "cli.optimize",
        "cli.models",
        "cli.config",
        "cli.memory",
        "cli.mailbox",
        "cli.skill",
        "cli.mcp",
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
