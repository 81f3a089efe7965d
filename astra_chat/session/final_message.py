"""What a run says at its end, and where it left its script: pure functions of the state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from astra_chat.agents.rounds import Attempt, failed
from astra_chat.agents.run_state import RunState
from astra_chat.agents.turn_order import STOP_TEXTS, AskHuman, next_step
from astra_chat.agents.turns import Kernel, Position
from astra_chat.tools.descriptions import describe, ratio_text, speed, verdict
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.text import one_line
from astra_chat.tools.timing.verdict import MIN_GAIN
from astra_chat.tools.types import Basis, Timed
from astra_chat.transcript.events import BROKEN_OFF, Deviation, Ended, EndReason

AT_BUILD = "build_failed"
"""Shows there, and nowhere else: what is refused may be so by its launches."""


class Expecting(Protocol):
    """Models that may predict the result of a kernel."""

    def expected(
        self, kernel: Kernel, place: Position, basis: Basis = "measured"
    ) -> str | None: ...


def deviation(state: RunState, models: Expecting) -> Deviation | None:
    """Whether the last turn, a build or an evaluation, is not what the models predicted."""
    under_way, baseline = state.round, state.baseline
    if under_way is None or not under_way.attempts or under_way.attempts[-1].speaker == "executor":
        return None
    kernel = under_way.attempts[-1].kernel
    place = Position(round=under_way.number, attempt=len(under_way.attempts) - 1)
    estimated = baseline is not None and baseline.device.kind == "virtual"
    expected = models.expected(kernel, place, "estimated" if estimated else "measured")
    if expected is None:
        return None
    found = _found(state, expected)
    if found is None or found == expected:
        return None
    return Deviation(candidate=kernel.candidate, expected=expected, found=found)


def _found(state: RunState, expected: str) -> str | None:
    """The last turn's result as the expectation names it; None if it has none of that kind."""
    at_build = expected == AT_BUILD
    match state.last.payload if state.last else None:
        case BuildReport() as report:
            return verdict(report.result) if at_build or failed(report) else None
        case Evaluation(outcome=outcome, confirms=False):
            return None if at_build else verdict(outcome)
        case _:
            return None


def ended(
    state: RunState,
    reason: EndReason,
    error: Exception | None = None,
    notes: Sequence[str] = (),
    seed: str = "",
    question: str = "",
    job: str = "",
) -> Ended:
    """The last event of a run."""
    evaluation, timed = state.best or (None, None)
    waits = f"waiting until job {job[:12]} is judged" if job else ""
    sentences = [waits or _reason_text(state, reason)]
    if evaluation is not None and timed is not None:
        confirmed = _confirmed(evaluation)
        sentences.append(f"best candidate {evaluation.candidate}: {speed(timed)}{confirmed}")
    elif reason in BROKEN_OFF:
        sentences.append("no candidate has been accepted so far")
    elif reason != "baseline_failed":
        sentences.append(_without_best(state))
    return Ended(
        reason=reason,
        words=_sentences([*sentences, *notes]),
        best=evaluation.candidate if evaluation else None,
        ratio=timed.ratio if timed else None,
        basis=timed.basis if timed else None,
        error=f"{type(error).__name__}: {error}" if error else "",
        seed=seed,
        question=question,
        job=job,
    )


def refusal_text(attempt: Attempt) -> str:
    """A winner that its confirmation refused: its figure in the search, and the case or reason."""
    assert attempt.refused is not None
    timed = attempt.won.outcome if attempt.won else None
    figure = f" ({speed(timed)} in the search)" if isinstance(timed, Timed) else ""
    why = one_line(describe(attempt.refused.outcome)).rstrip(".")
    return f"candidate {attempt.kernel.candidate}{figure} failed its confirmation: {why}"


def _without_best(state: RunState) -> str:
    """An estimate may leave open what a GPU would tell: the fastest such candidate is named."""
    attempts = [attempt for under_way in state.rounds for attempt in under_way.attempts]
    last = [state.confirmed.get(one.kernel.candidate, one.evaluation) for one in attempts]
    timed = [
        (outcome, one.kernel.candidate)
        for one, evaluation in zip(attempts, last, strict=True)
        if evaluation is not None
        and one.rejected is None
        and isinstance(outcome := evaluation.outcome, Timed)
    ]
    if not timed:
        return _untimed(attempts)
    ties = [
        (outcome.ratio, candidate, outcome.why)
        for outcome, candidate in timed
        if outcome.verdict == "tie" and outcome.basis == "estimated" and outcome.ratio > MIN_GAIN
    ]
    if not ties:
        left_out = _counted(attempts)
        of_timed = f" among those that were timed; {left_out}" if left_out else ""
        return f"no candidate was faster than the baseline{of_timed}"
    ratio, candidate, why = max(ties, key=lambda one: one[0])
    return (
        "no candidate is faster than the baseline beyond the estimate's uncertainty; the best tie"
        f" is {candidate} at {ratio_text(ratio)} ({why}); to time all candidates on a GPU, run"
        " astra-chat replay TRANSCRIPT --rejudge --device cuda"
    )


def _untimed(attempts: Sequence[Attempt]) -> str:
    """What came of the candidates where none was timed, or none that was timed counts."""
    return f"no candidate was accepted: {_counted(attempts) or 'none was written'}"


def _counted(attempts: Sequence[Attempt]) -> str:
    """How many candidates are no answer to whether they are faster, and why."""
    kinds: dict[str, int] = {}
    for one in attempts:
        if why := _unanswered(one):
            kinds[why] = kinds.get(why, 0) + 1
    return ", ".join(f"{count} {why}" for why, count in kinds.items())


def _unanswered(attempt: Attempt) -> str:
    if attempt.rejected is not None:
        return "rejected by the human"
    if attempt.refused is not None:
        return "that did not pass confirmation"
    if attempt.replaced:
        return "replaced by the human's edit"
    if attempt.evaluation is None:
        return "that did not build" if attempt.build and failed(attempt.build) else "not judged"
    return "" if isinstance(attempt.evaluation.outcome, Timed) else "that failed"


def _confirmed(evaluation: Evaluation) -> str:
    if evaluation.confirms:
        return ", confirmed on fresh seeds"
    return ", unconfirmed: selection bias"


def _reason_text(state: RunState, reason: EndReason) -> str:
    if reason == "interrupted":
        return "interrupted; the transcript contains every finished turn"
    if reason == "waiting":
        step = next_step(state)
        if not isinstance(step, AskHuman):
            return "waiting until a question in the mailbox is answered"
        run = step.gate == "run"
        what = "run" if run else "accepted as the best"
        return f"waiting for a decision on whether candidate {state.shown} may be {what}"
    if reason == "budget":
        return "the run stopped because the next step would exceed its budget"
    if reason == "error":
        return "the run failed; the kernel is not the cause"
    text = STOP_TEXTS[reason]
    if reason == "baseline_failed" and state.baseline is not None:
        text += f": it is {describe(state.baseline.outcome)}"
    return text


def _sentences(parts: Sequence[str]) -> str:
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts)
