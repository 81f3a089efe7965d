"""`astra-chat export`: recorded runs as data for other programs."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from astra_chat.arguments import TranscriptsArgument

if TYPE_CHECKING:
    from astra_chat.analysis.recorded_run import RecordedRun
    from astra_chat.export.filters import Filter


class Form(Enum):
    PARQUET = "parquet"
    JSONL = "jsonl"
    SFT = "sft"
    RL = "rl"
    FLASHINFER_BENCH = "flashinfer-bench"


SUFFIX = {Form.PARQUET: ".parquet", Form.FLASHINFER_BENCH: ""}
"""Suffix of the output's default name; of the forms that are not named, .jsonl."""


def register(app: typer.Typer) -> None:
    app.command(short_help="Export recorded runs as data: Parquet, JSON lines, training data.")(
        export
    )


def export(
    files: TranscriptsArgument,
    to: Annotated[Form, typer.Option(help="What to write.")],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Output file; for flashinfer-bench, a new folder."),
    ] = None,
    confirmed: Annotated[
        bool,
        typer.Option("--confirmed", help="Export only candidates that were accepted on new seeds."),
    ] = False,
    measured: Annotated[
        bool, typer.Option("--measured", help="Export only evaluations that were timed on a GPU.")
    ] = False,
    device: Annotated[
        str,
        typer.Option(metavar="WORDS", help="Export only devices whose name contains this text."),
    ] = "",
    live: Annotated[
        bool, typer.Option("--live", help="Export only runs in which a model answered.")
    ] = False,
    license: Annotated[
        str,
        typer.Option(metavar="SPDX", help="Licence of the texts, which is recorded in the data."),
    ] = "",
) -> None:
    """Export recorded runs as data: one row for each evaluation (parquet, jsonl), chat examples
    (sft), states, actions and rewards (rl), or a flashinfer-bench data set.

    Of several runs with the same name, only one is exported.
    """
    from astra_chat.analysis.recorded_run import load_transcript
    from astra_chat.display.notes import note
    from astra_chat.export.filters import Filter
    from astra_chat.export.writing import write, write_folder

    runs: dict[str, RecordedRun] = {}
    for file in files:
        run = load_transcript(file)
        if run.name in runs:
            note(f"{file}: run {run.name} is also in {runs[run.name].path}, so it is left out")
        else:
            runs[run.name] = run
    wanted = Filter(confirmed=confirmed, measured=measured, device=device, live=live)
    target = out or Path(f"astra-{to.value}{SUFFIX.get(to, '.jsonl')}")
    if to is Form.FLASHINFER_BENCH:
        from astra_chat.export.flashinfer_bench import data_set

        found = data_set(list(runs.values()), wanted, license)
        write_folder(target, found)
        count, what = len(found), "files"
    else:
        content, count = _content(to, list(runs.values()), wanted, license)
        write(target, content)
        what = "rows"
    note(f"{count:,} {what}")
    print(target)


def _content(to: Form, runs: list[RecordedRun], wanted: Filter, license: str) -> tuple[bytes, int]:
    """What the file holds, and how many rows that is."""
    from astra_chat.analysis.rows import EvaluationRow
    from astra_chat.export.writing import json_lines

    if to in (Form.SFT, Form.RL):
        from astra_chat.export.chats import chat_examples, reward_steps

        make = chat_examples if to is Form.SFT else reward_steps
        turns = [one for run in runs for one in make(run, wanted, license)]
        return json_lines(turns), len(turns)
    rows = wanted.of(row for run in runs for row in run.evaluations)
    if to is Form.JSONL:
        return json_lines(rows), len(rows)
    from astra_chat.export.arrow import parquet_bytes

    about = {"schema": "astra-chat/evaluations/1", "license": license}
    return parquet_bytes(EvaluationRow, rows, about), len(rows)
