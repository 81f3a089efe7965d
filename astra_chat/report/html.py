"""Transcripts as one self-contained HTML page; what others say in it is escaped text."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from astra_chat.display.console import console
from astra_chat.display.results_table import where
from astra_chat.display.run_view import View
from astra_chat.report.plot import Plot, plot, with_interval
from astra_chat.report.sources import Change, changes
from astra_chat.tools.text import plain
from astra_chat.transcript.events import BROKEN_OFF
from astra_chat.transcript.reader import Transcript
from astra_chat.transcript.recorded_task import baseline_text
from astra_chat.transcript.summary import RunSummary, summarize
from astra_chat.transcript.turns import turns_of


@dataclass(frozen=True)
class Run:
    """What the page shows of one transcript."""

    summary: RunSummary
    basis: str
    """ "measured on ..." or "estimated for ..."."""
    measured: bool
    over: bool
    """Ended for good: nothing is left to be resumed."""
    plot: Plot | None
    words: str
    changes: list[Change]
    provenance: str

    @staticmethod
    def in_short(words: str) -> str:
        """Of an outcome, whose further lines stand among the turns."""
        first, _, rest = words.partition("\n")
        return f"{first} {rest.splitlines()[0].strip()}" if first.endswith(":") and rest else first


def report(transcripts: Sequence[Transcript]) -> str:
    """The page. Nothing in it is run: it has no script, and its policy forbids any."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=_seen,
    )
    environment.filters["with_interval"] = with_interval
    return environment.get_template("page.html").render(runs=[_run(t) for t in transcripts])


def _seen(value: object) -> object:
    """Text of others with unseen characters spelt out, so that a diff shows what a compiler reads;
    markup is our own."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _run(transcript: Transcript) -> Run:
    header, turns = transcript.header, turns_of(transcript.records)
    out = io.StringIO()
    view = View(console(out))
    for record in transcript.records:
        view.show(record)
    summary = summarize(transcript.records)
    baseline = baseline_text(transcript)
    return Run(
        summary=summary,
        basis=where("measured" if header.device.kind == "cuda" else "estimated", header.device),
        over=summary.ended is not None and summary.ended.reason not in BROKEN_OFF,
        measured=header.device.kind == "cuda",
        plot=plot(summary),
        words=out.getvalue(),
        changes=changes(turns, baseline),
        provenance=header.model_dump_json(indent=2),
    )
