"""`astra-chat report`: recorded runs as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(report)


def report(
    files: Annotated[list[Path], typer.Argument(help="Transcripts, or folders of runs.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The HTML file.")] = Path("report.html"),
) -> None:
    """Write recorded runs as one HTML file: results, rounds, every word, sources, provenance."""
    from astra_chat.report.html import report as page
    from astra_chat.tools.errors import BadInput
    from astra_chat.transcript.reader import read

    text = page([read(file) for file in files])
    try:
        out.write_text(text)
    except OSError as error:
        raise BadInput(f"cannot write {out}: {error.strerror}") from None
    print(out)
