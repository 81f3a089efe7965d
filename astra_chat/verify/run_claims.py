"""Claims about the run as a whole: winner, confirmation, ledger, texts, names, harness."""

from __future__ import annotations

from collections.abc import Iterator

from astra_chat.agents.evaluations import faster
from astra_chat.agents.run_state import RunState
from astra_chat.tools.descriptions import speed
from astra_chat.tools.task.tiers import TIER_FILES
from astra_chat.tools.types import sha256_of
from astra_chat.transcript.events import BROKEN_OFF, BuildDone, Ended, Proposed
from astra_chat.transcript.ledger import ledger
from astra_chat.transcript.spending import Spent
from astra_chat.transcript.turns import finished, state_of
from astra_chat.verify.claims import NO_HASH, Claim, claim, differences, unchecked
from astra_chat.verify.recorded import Run, about

WINNER, CONFIRMED = "the winner is the best evaluation", "the winner is confirmed"
LEDGER = "the ledger adds up"


def run_claims(run: Run) -> Iterator[Claim]:
    """Every claim about the end of a session."""
    records = run.transcript.records
    for place, record in enumerate(records):
        where = f"line {record.seq + 1}"
        match record.event:
            case Spent() as spent:
                found = ledger(records[:place])
                told = type(spent).model_fields
                pairs = [(name, getattr(spent, name), getattr(found, name)) for name in told]
                why = differences(pairs)
                if why and record.turn != records[-1].turn:
                    yield unchecked(LEDGER, where, "of an earlier session")
                else:
                    yield claim(LEDGER, where, not why, why)
            case Ended() as ended:
                last = place == len(records) - 1
                yield from _winner(ended, run.state if last else state_of(records[:place]), where)
    if not isinstance(records[-1].event, Ended):
        yield unchecked(WINNER, f"line {len(finished(records))}", "the run did not reach its end")


def _winner(ended: Ended, state: RunState, where: str) -> Iterator[Claim]:
    """The best by the last word on each candidate: its confirmation, where there is one."""
    best = state.best
    name, ratio, basis = (
        (best[0].candidate, best[1].ratio, best[1].basis) if best else (None, None, None)
    )
    why = differences(
        [("winner", ended.best, name), ("ratio", ended.ratio, ratio), ("basis", ended.basis, basis)]
    )
    if not why and best is not None and speed(best[1]) not in ended.words:
        why = "the final message states a different figure"
    yield claim(WINNER, where, not why, why)
    if best is None or ended.reason in BROKEN_OFF:
        return
    confirming = state.confirmed.get(best[0].candidate)
    if state.limits.confirmations == 0:
        yield unchecked(CONFIRMED, where, "the run did not confirm a winner")
    else:
        holds = confirming is not None and faster(confirming) is not None
        yield claim(CONFIRMED, where, holds, "unconfirmed: selection bias")


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
    return claim(
        TASK, record.name, run.task.id == record.id, f"its files produce {run.task.id[:12]}"
    )


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
                why = f"judged by {known.judge_sha256[:12]}, other evaluations by {first[:12]}"
                yield claim(HARNESS, where, known.judge_sha256 == first, why)
