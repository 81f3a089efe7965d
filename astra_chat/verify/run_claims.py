"""Claims about the run as a whole: winner, confirmation, ledger."""

from __future__ import annotations

from collections.abc import Iterator

from astra_chat.agents.evaluations import faster
from astra_chat.agents.run_state import RunState
from astra_chat.tools.descriptions import speed
from astra_chat.transcript.events import BROKEN_OFF, Ended
from astra_chat.transcript.ledger import ledger
from astra_chat.transcript.spending import Spent
from astra_chat.transcript.turns import finished, state_of
from astra_chat.verify.claims import Claim, claim, differences, unchecked
from astra_chat.verify.recorded import Run

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
        why = "the final message states another figure"
    yield claim(WINNER, where, not why, why)
    if best is None or ended.reason in BROKEN_OFF:
        return
    confirming = state.confirmed.get(best[0].candidate)
    if state.limits.confirmations == 0:
        yield unchecked(CONFIRMED, where, "the run did not confirm a winner")
    else:
        holds = confirming is not None and faster(confirming) is not None
        yield claim(CONFIRMED, where, holds, "unconfirmed: selection bias")
