"""Claims about texts: hashes, names of candidates, the task, and which harness judged."""

from __future__ import annotations

from collections.abc import Iterator

from astra_chat.tools.task.tiers import TIER_FILES
from astra_chat.tools.types import sha256_of
from astra_chat.transcript.events import BuildDone, Proposed
from astra_chat.verify.claims import NO_HASH, Claim, claim, unchecked
from astra_chat.verify.recorded import Run, about

TEXTS, TASK, NAMES = "texts match their hashes", "the task matches its id", "candidates match"
" their names"
HARNESS, BASELINE = "one version of the judge throughout", "the baseline is the task's"


def text_claims(run: Run) -> Iterator[Claim]:
    """Every claim about a text or a hash of one."""
    for sha, text in run.texts.items():
        found = sha256_of(text)
        yield claim(TEXTS, sha[:12], found == sha, f"the text's hash is {found[:12]}")
    yield _task(run)
    yield from _names(run)
    yield from _baseline(run)
    yield from _harness(run)


def _task(run: Run) -> Claim:
    record = run.transcript.header.task
    if run.task is None:
        return unchecked(TASK, record.name, run.broken_task)
    return claim(TASK, record.name, run.task.id == record.id, f"its files give {run.task.id[:12]}")


def _names(run: Run) -> Iterator[Claim]:
    """A candidate's name is the head of its source's hash, and who is judged was proposed."""
    proposed = {sha[:12] for sha in run.transcript.header.task.files.values()}
    for record in run.transcript.records:
        match record.event:
            case Proposed(candidate=name, sha256=sha):
                proposed.add(name)
                where = f"turn {record.turn}, {name}"
                yield claim(NAMES, where, sha[:12] == name, f"its source is {sha[:12]}")
            case BuildDone(report=report):
                where = f"turn {record.turn}, {report.candidate}"
                known = report.candidate in proposed
                yield claim(NAMES, where, known, "the built source was never proposed")
    for turn, evaluation in run.evaluations:
        known = evaluation.candidate in proposed
        yield claim(NAMES, about(turn, evaluation), known, "the judged source was never proposed")


def _baseline(run: Run) -> Iterator[Claim]:
    header = run.transcript.header
    sha = header.task.files.get(TIER_FILES[header.options.tier], "")
    for turn, evaluation in run.evaluations[:1]:
        holds = evaluation.candidate == sha[:12]
        yield claim(
            BASELINE, about(turn, evaluation), holds, f"the task's text has hash {sha[:12]}"
        )


def _harness(run: Run) -> Iterator[Claim]:
    """Figures of two versions of the judge are not compared with each other. A resumed run may
    have two, and says so."""
    for session in run.sessions:
        evidence = [(turn, one, one.evidence) for turn, one in session.judged]
        first = next((e.judge_sha256 for _, _, e in evidence if e), "")
        for turn, evaluation, known in evidence:
            where = about(turn, evaluation)
            if known is None:
                yield unchecked(HARNESS, where, NO_HASH)
            else:
                why = f"by judge {known.judge_sha256[:12]}, others by {first[:12]}"
                yield claim(HARNESS, where, known.judge_sha256 == first, why)
