"""`astra-chat models check`: one tiny call for each role, before a night's run is trusted to it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Annotated

import typer

SCHEMA = "astra-chat/models/1"

models_app = typer.Typer(help="The models that play the roles.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(models_app, name="models")


@models_app.callback()
def models() -> None:
    """The models that play the roles."""


@models_app.command()
def check(
    models: Annotated[
        str, typer.Option(help="As for run: openai:MODEL[,ROLE=openai:MODEL...].")
    ] = "openai",
    base_url: Annotated[
        str | None, typer.Option(help="A server that speaks OpenAI's protocol: http://...")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Ask every role's model one small question, and say what came."""
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
