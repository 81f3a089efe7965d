"""`astra-chat doctor`: what this machine can do, and how to get what is missing."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from astra_chat.cli.options import JsonOption

if TYPE_CHECKING:
    from astra_chat.cli.diagnosis import Diagnosis

SCHEMA = "astra-chat/doctor/1"


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    models: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Also send one small, real request to this model, named as for `run`:"
            " PROVIDER:MODEL[,OPTION=VALUE...].",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what this machine can do, and how to get what is missing."""
    from astra_chat.cli.diagnosis import Diagnosis, asked_models, diagnose
    from astra_vgpu.ground.errors import MissingDependency

    asked, worst = asked_models(models) if models is not None else ((), 0)
    found = Diagnosis(points=(*diagnose().points, *asked))
    if as_json:
        points = [asdict(point) for point in found.points]
        head = {"schema": SCHEMA, "virtual": found.virtual, "cuda": found.cuda}
        print(json.dumps({**head, "points": points}, indent=2))
    else:
        _show(found)
    if not found.virtual:
        raise typer.Exit(MissingDependency.exit_code)
    if worst:
        raise typer.Exit(worst)


def _show(found: Diagnosis) -> None:
    from rich.text import Text

    from astra_chat.cli.diagnosis import WORDS
    from astra_chat.display.console import console

    out = console()
    for serves, heading in WORDS.items():
        points = [point for point in found.points if point.serves == serves]
        if points:
            out.print(Text(heading, "bold"), soft_wrap=True)
        for point in points:
            mark, color = ("ok", "green") if point.ok else ("--", "yellow")
            line = Text.assemble((f"  {mark}  ", color), f"{point.name}: {point.found}")
            out.print(line, soft_wrap=True)
            if point.advice:
                out.print(Text(f"      {point.advice}"), soft_wrap=True)
    device = "a real GPU and the virtual GPU" if found.cuda else "the virtual GPU only"
    result = f"Astra runs here, on {device}." if found.virtual else "Astra cannot run here yet."
    out.print(Text(result, "bold"), soft_wrap=True)
