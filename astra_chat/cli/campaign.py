"""`astra-chat campaign`: a grid of experiments from one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from astra_chat.arguments import present
from astra_chat.cli.exit_codes import CHECK_FAILED, INTERRUPTED, WAITING
from astra_chat.cli.options import TrustOption
from astra_chat.display.notes import note

if TYPE_CHECKING:
    from astra_chat.campaign.index import Index

START = "start"
RESULTS = "results.md"


class FileFirst(TyperGroup):
    """`campaign FILE` is `campaign start FILE`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        if args and args[0] not in (*self.commands, "--help", "-h"):
            args = [START, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=FileFirst,
    help="Run a grid of experiments from one file: campaign FILE.toml starts or continues it.",
    no_args_is_help=True,
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print index.json to stdout.")]


def register(main: typer.Typer) -> None:
    main.add_typer(app, name="campaign", short_help="Run a grid of experiments from one file.")


@app.command(START)
def start(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.toml", help="The campaign file.", callback=present)
    ],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="The campaign's folder; default: transcripts/FILE."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the campaign that its folder contains.")
    ] = False,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Keep waiting while runs wait for a judge or for answers."),
    ] = False,
    trust: TrustOption = False,
    as_json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not print progress.")] = False,
) -> None:
    """Run all experiments of FILE.toml, several at the same time. A failed run does not stop the
    others.

    Exit code 4: runs are waiting for a judge or for answers; 130: interrupted, continue with
    --resume.
    """
    from astra_chat.campaign.campaign_file import read_campaign
    from astra_chat.campaign.driver import Driver, begin
    from astra_chat.campaign.index import driving
    from astra_chat.campaign.overview import overview
    from astra_chat.campaign.results import markdown
    from astra_chat.tools.system.files import write_whole

    campaign = read_campaign(file)
    folder = out or Path("transcripts") / file.stem
    before = begin(campaign, folder, resume)
    with driving(folder):
        with overview(quiet or as_json) as view:
            driver = Driver(campaign, folder, before, view.changed, view.looked, trust, wait)
            index = driver.run()
        write_whole(folder / RESULTS, markdown(index).encode())
    _print(index, as_json)
    if driver.interrupted:
        note("continue with --resume")
        raise typer.Exit(INTERRUPTED)
    _exit(index)


@app.command(short_help="Show the state of each run of a campaign.")
def status(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The campaign's folder.", callback=present)
    ],
    as_json: JsonOption = False,
) -> None:
    """Show the state of each run of a campaign, even while it is in progress."""
    from astra_chat.campaign.index import present, read_index

    index = present(read_index(folder), folder)
    _print(index, as_json)
    _exit(index)


def _exit(index: Index) -> None:
    states = {row.state for row in index.runs}
    if states & {"failed", "unreadable"}:
        raise typer.Exit(CHECK_FAILED)
    if "waiting" in states:
        raise typer.Exit(WAITING)


def _print(index: Index, as_json: bool) -> None:
    from astra_chat.campaign.overview import show

    if as_json:
        print(index.model_dump_json(indent=2))
    else:
        show(index)
