"""Transcripts as one self-contained HTML page; what others say in it is escaped text."""

from __future__ import annotations

import difflib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from astra_chat.agents.predictions import predictions
from astra_chat.console import console
from astra_chat.summary import Summary, summarize
from astra_chat.table import where
from astra_chat.tools.judge import TIER_FILES
from astra_chat.transcript.events import Proposed
from astra_chat.transcript.reader import Transcript
from astra_chat.transcript.turns import texts, thread
from astra_chat.view import View

KINDS = {"+": "add", "-": "del", "@": "at"}


@dataclass(frozen=True)
class Run:
    """What the page shows of one transcript."""

    summary: Summary
    basis: str
    """ "measured on ..." or "estimated for ..."."""
    found: dict[int, str]
    """What came of each round's plan, over the plan's parent."""
    words: str
    diffs: list[tuple[str, list[tuple[str, str]]]]
    """Candidate, and the lines of its diff, each with its kind."""
    provenance: str


def report(transcripts: Sequence[Transcript]) -> str:
    """The page. Nothing in it is run: it has no script, and its policy forbids any."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("page.html").render(runs=[_run(t) for t in transcripts])


def _run(transcript: Transcript) -> Run:
    header = transcript.header
    basis = where("measured" if header.device.kind == "cuda" else "estimated", header)
    out = io.StringIO()
    view = View(console(out))
    for record in transcript.records:
        view.show(record)
    judged = predictions(thread(transcript.records))
    return Run(
        summary=summarize(transcript.records),
        basis=basis,
        found={p.round: f"{p.found_ratio:.2f}x" if p.found_ratio else "not right" for p in judged},
        words=out.getvalue(),
        diffs=_diffs(transcript),
        provenance=header.model_dump_json(indent=2),
    )


def _diffs(transcript: Transcript) -> list[tuple[str, list[tuple[str, str]]]]:
    stored, header = texts(transcript.records), transcript.header
    tier = TIER_FILES[header.options.tier]
    baseline = stored[header.task.files[tier]].splitlines()
    found = {}
    for record in transcript.records:
        if isinstance(record.event, Proposed):
            own = stored[record.event.sha256].splitlines()
            lines = list(difflib.unified_diff(baseline, own, "baseline", "candidate", lineterm=""))
            found[record.event.candidate] = [(KINDS.get(line[:1], ""), line) for line in lines]
    return list(found.items())
