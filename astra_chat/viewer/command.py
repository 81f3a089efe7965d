"""`astra-chat view`: runs in the browser. `astra-chat runs list`: the same list as text."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from astra_chat.arguments import require_folder

if TYPE_CHECKING:
    from astra_chat.viewer.runs import RunRow

SCHEMA = "astra-chat/runs/1"
DEFAULT = Path("transcripts")
FolderArgument = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="Folder that contains runs.", callback=require_folder),
]

ListedArgument = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="Folder or archive that contains recorded runs."),
]

runs_app = typer.Typer(help="List the runs in a folder.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.command(short_help="Show runs in the browser, including those in progress.")(view)
    app.add_typer(runs_app, name="runs")


def view(
    folder: FolderArgument = DEFAULT,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0: any free port.")
    ] = 0,
) -> None:
    """Show the runs in a folder in the browser, until Ctrl-C. Nothing is written.

    The address contains a random token: anyone on this machine who has it can read the runs.
    """
    from astra_chat.viewer.server import Server, Viewer

    with Server(Viewer(folder), port) as server:
        print(server.url, flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


@runs_app.command("list", short_help="List the runs in a folder, newest first.")
def list_runs(
    folder: ListedArgument = DEFAULT,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document to stdout.")
    ] = False,
) -> None:
    """List the runs in a folder, newest first: their results, and what is waiting."""
    from astra_chat.tools.recordings.reading import in_archive
    from astra_chat.viewer.runs import Runs, runs_of_archive

    if in_archive(folder):
        rows = runs_of_archive(folder)
    else:
        require_folder(folder)
        rows = Runs(folder).list()
    if as_json:
        found = [row.model_dump(mode="json") for row in rows]
        print(json.dumps({"schema": SCHEMA, "folder": str(folder), "runs": found}, indent=2))
        return
    _print(rows, folder)


def _print(rows: list[RunRow], folder: Path) -> None:
    from astra_chat.display.notes import note
    from astra_chat.display.tables import print_rows
    from astra_chat.tools.recordings.reading import in_archive

    if not rows:
        print(f"there are no runs in {folder}")
        return
    headings = ("task", "started (UTC)", "state", "best", "over", "basis", "rounds", "transcript")
    cells = [
        (
            row.task or "-",
            row.started[:16].replace("T", " "),
            row.state,
            f"{row.best.ratio:.2f}x" if row.best else "-",
            row.baseline if row.best else "",
            row.basis if row.best else "",
            str(row.rounds),
            row.path,
        )
        for row in rows
    ]
    print_rows(headings, cells, right=("best", "rounds"))
    noted = ("unreadable",) if in_archive(folder) else ("running", "waiting", "unreadable")
    for row in rows:
        if row.state in noted:
            note(f"{row.path}: {row.words}")
