"""What a run says at its end, and where it left its script: pure functions of the thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from astra_chat.agents import run_state
from astra_chat.agents.run_state import Position, Thread
from astra_chat.agents.turn_order import STOP_WORDS
from astra_chat.agents.turns import Kernel
from astra_chat.tools.descriptions import describe, speed, verdict
from astra_chat.tools.types import Basis, BuildReport, Evaluation
from astra_chat.transcript.events import BROKEN_OFF, Deviation, Ended, EndReason

BUILD_OUTCOMES = ("refused", "build_failed")


class Expecting(Protocol):
    """Models that may foretell what becomes of a kernel."""

    def expected(
        self, kernel: Kernel, place: Position, basis: Basis = "measured"
    ) -> str | None: ...


def deviation(thread: Thread, models: Expecting) -> Deviation | None:
    """Whether the last turn, a build or an evaluation, is not what the models foretold."""
    found_rounds = run_state.rounds(thread)
    if not found_rounds or not found_rounds[-1].attempts:
        return None
    attempts = found_rounds[-1].attempts
    kernel = attempts[-1].kernel
    place = Position(round=found_rounds[-1].number, attempt=len(attempts) - 1)
    judged = run_state.baseline(thread)
    estimated = judged is not None and judged.device.kind == "virtual"
    expected = models.expected(kernel, place, "estimated" if estimated else "measured")
    if expected is None:
        return None
    found = _found(thread, expected)
    if found is None or found == expected:
        return None
    return Deviation(candidate=kernel.candidate, expected=expected, found=found)


def _found(thread: Thread, expected: str) -> str | None:
    """What the last turn says about the expectation; None if it says nothing yet, or no more."""
    at_build = expected in BUILD_OUTCOMES
    match thread[-1].payload:
        case BuildReport() as report:
            return verdict(report.result) if at_build or run_state.failed(report) else None
        case Evaluation(outcome=outcome, confirms=False):
            return None if at_build else verdict(outcome)
        case _:
            return None


def ended(
    thread: Thread, reason: EndReason, error: Exception | None = None, notes: Sequence[str] = ()
) -> Ended:
    """The last event of a run."""
    found = run_state.best(thread)
    best = found[0].candidate if found else None
    timed = found[1] if found else None
    said = [_reason_words(thread, reason)]
    if best is not None and timed is not None:
        assert found is not None
        said.append(f"best candidate {best}: {speed(timed)}{_confirmed(found[0])}")
    elif reason in BROKEN_OFF:
        said.append("no candidate is accepted so far")
    elif reason != "baseline_failed":
        said.append("no candidate was faster than the baseline")
    return Ended(
        reason=reason,
        words=_sentences([*said, *notes]),
        best=best,
        ratio=timed.ratio if timed else None,
        basis=timed.basis if timed else None,
        error=f"{type(error).__name__}: {error}" if error else "",
    )


def _confirmed(evaluation: Evaluation) -> str:
    if evaluation.confirms:
        return ", confirmed on fresh seeds"
    return ", not confirmed: the luckiest of several evaluations reads too high"


def _reason_words(thread: Thread, reason: EndReason) -> str:
    if reason == "interrupted":
        return "interrupted; the transcript holds every turn that was finished"
    if reason == "waiting":
        last = thread[-1].payload
        assert isinstance(last, BuildReport | Evaluation)
        what = "run" if isinstance(last, BuildReport) else "accepted as the best"
        return f"waiting for a decision: may candidate {last.candidate} be {what}"
    if reason == "budget":
        return "the run stopped before it would have spent more than its budget"
    if reason == "error":
        return "the run broke off by an error that is not the kernel's"
    words = STOP_WORDS[reason]
    first = run_state.baseline(thread)
    if reason == "baseline_failed" and first is not None:
        words += f": it is {describe(first.outcome)}"
    return words


def _sentences(parts: Sequence[str]) -> str:
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts)
