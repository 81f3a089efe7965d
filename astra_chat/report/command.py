"""`astra-chat report`: recorded runs as one HTML file."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from astra_chat.arguments import TranscriptsArgument

if TYPE_CHECKING:
    from astra_chat.transcript.reader import Transcript

SCHEMA = "astra-chat/report/1"
STDOUT = ("-", "/dev/stdout")
OWN = b'<meta name="generator" content="astra-chat report">'


def register(app: typer.Typer) -> None:
    app.command(short_help="Write recorded runs as one HTML file.")(report)


def report(
    files: TranscriptsArgument,
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--out", help="Output file, or - for stdout; an earlier report is overwritten."
        ),
    ] = Path("report.html"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Also print the runs as one JSON document.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not print the path.")] = False,
) -> None:
    """Write recorded runs as one HTML file: results, rounds, chat, sources, provenance."""
    from astra_chat.display.notes import note
    from astra_chat.report.html import report as page
    from astra_chat.tools.system.files import write_whole
    from astra_chat.transcript.reader import read, unknown_kinds
    from astra_vgpu.ground.errors import BadInput

    to_stdout = str(out) in STDOUT
    if to_stdout and as_json:
        raise BadInput("--json and -o - cannot be combined: both write to stdout")
    transcripts = [read(file) for file in files]
    for one in transcripts:
        if one.torn:
            note(f"{one.path}: the last line was cut off and is left out")
        if (unknown := unknown_kinds(one)) is not None:
            note(unknown)
    if to_stdout:
        print(page(transcripts))
        return
    _require_no_other(out)
    write_whole(out, page(transcripts).encode())
    if as_json:
        _print_json(out, transcripts)
    elif not quiet:
        print(out)


def _print_json(out: Path, transcripts: list[Transcript]) -> None:
    """Where the page lies, and each run's summary; field `schema` names the form."""
    from astra_chat.transcript.summary import summarize

    runs = [
        {**summarize(one.records).model_dump(mode="json"), "transcript": str(one.path)}
        for one in transcripts
    ]
    print(json.dumps({"schema": SCHEMA, "report": str(out), "runs": runs}, indent=2))


def _require_no_other(out: Path) -> None:
    """Raise BadInput where something stands that `report` did not write, a transcript perhaps."""
    from astra_vgpu.ground.errors import BadInput

    try:
        if not stat.S_ISREG(out.stat().st_mode) and not out.is_dir():
            raise BadInput(f"{out} is not a regular file: give one, or - for stdout")
        with out.open("rb") as file:
            own = OWN in file.read(1024)
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadInput(f"cannot write {out}: {error.strerror}") from None
    if not own:
        raise BadInput(f"{out} exists and is not a report: choose another file with -o")
