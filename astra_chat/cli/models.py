"""`astra-chat models check`: one small request for each role, before a long run."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from astra_chat.cli.options import JsonOption

SCHEMA = "astra-chat/models/1"

models_app = typer.Typer(help="Check the model of each role.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(models_app, name="models")


@models_app.callback()
def models() -> None:
    """Check the model of each role."""


@models_app.command()
def check(
    models: Annotated[
        str, typer.Option(help="Model backend, as for run: openai:MODEL[,ROLE=openai:MODEL...].")
    ] = "openai",
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="URL of a server with an OpenAI-compatible API: http://HOST:PORT/v1.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Send one small request to each role's model."""
    import asyncio

    from astra_chat.models.trial import open_live, try_all

    found = asyncio.run(try_all(open_live(models, base_url)))
    if as_json:
        trials = [{**asdict(trial), "ok": trial.exit_code == 0} for trial in found]
        print(json.dumps({"schema": SCHEMA, "trials": trials}, indent=2))
    for trial in () if as_json else found:
        mark = "ok" if trial.exit_code == 0 else "failed"
        print(f"{trial.role:<9} {trial.model}: {mark}: {trial.words}")
    if worst := max(trial.exit_code for trial in found):
        raise typer.Exit(worst)
