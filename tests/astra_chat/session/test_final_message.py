"""Where a run left its script, and what it says at its end."""

from __future__ import annotations

import pytest

from astra_chat.agents.run_state import state_of
from astra_chat.agents.turns import Approval, Kernel, Payload, Position, Turn
from astra_chat.session.final_message import deviation, ended
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.types import Basis, Finding, Refused, candidate_id
from astra_chat.transcript.events import EndReason
from tests.chat_samples import (
    BROKEN,
    VECTOR,
    WRONG_OUTCOME,
    baseline_turns,
    build,
    evaluation,
    plan,
    timed,
)

OTHER = VECTOR + "// another"


class Foretold:
    """Expects one thing of the coder's kernel of round 1, whatever it is run on, or only there."""

    def __init__(self, expected: str, only: Basis | None = None) -> None:
        self._expected, self._only = expected, only

    def expected(self, kernel: Kernel, place: Position, basis: Basis = "measured") -> str | None:
        here = place == Position(round=1, attempt=0) and self._only in (None, basis)
        return self._expected if here else None


def chat(source: str, *found: Payload) -> list[Turn]:
    kernel = Turn("coder", Kernel(words="", source=source))
    turns = [Turn("executor", payload) for payload in found]
    return [*baseline_turns(), Turn("planner", plan()), kernel, *turns]


REFUSED = Refused(gate="plan", findings=(Finding(line=1, what="launches nothing"),))


@pytest.mark.parametrize(
    ("expected", "thread", "found"),
    [
        ("build_failed", chat(BROKEN, build(BROKEN)), None),
        ("build_failed", chat(VECTOR, build(VECTOR)), "built"),
        ("build_failed", chat(VECTOR, build(VECTOR), evaluation(VECTOR, timed(1.5))), None),
        ("accepted", chat(VECTOR, build(VECTOR)), None),
        ("accepted", chat(BROKEN, build(BROKEN)), "build_failed"),
        ("accepted", chat(VECTOR, build(VECTOR), evaluation(VECTOR, timed(1.5))), None),
        ("accepted", chat(VECTOR, build(VECTOR), evaluation(VECTOR, WRONG_OUTCOME)), "wrong"),
        ("wrong", chat(VECTOR, build(VECTOR), evaluation(VECTOR, timed(1.0, "tie"))), "tie"),
        ("wrong", chat(VECTOR), None),
        ("refused", chat(VECTOR, build(VECTOR)), None),
        ("refused", chat(VECTOR, build(VECTOR), evaluation(VECTOR, REFUSED)), None),
        ("refused", chat(VECTOR, build(VECTOR), evaluation(VECTOR, timed(1.5))), "accepted"),
    ],
)
def test_deviations_are_said_once_where_they_show(
    expected: str, thread: list[Turn], found: str | None
) -> None:
    said = deviation(state_of(thread), Foretold(expected))
    assert (said.found if said else None) == found


def test_an_estimate_and_a_measurement_may_be_foretold_apart() -> None:
    thread = chat(VECTOR, build(VECTOR), evaluation(VECTOR, timed(1.0, "tie")))
    judged = next(turn.payload for turn in thread if isinstance(turn.payload, Evaluation))
    virtual = judged.device.kind == "virtual"
    here: Basis = "estimated" if virtual else "measured"
    other: Basis = "measured" if virtual else "estimated"
    assert deviation(state_of(thread), Foretold("accepted", only=other)) is None
    said = deviation(state_of(thread), Foretold("accepted", only=here))
    assert said is not None and said.found == "tie"


def test_nothing_is_expected_of_the_baseline() -> None:
    assert deviation(state_of(baseline_turns()), Foretold("wrong")) is None


def test_the_end_names_the_best_candidate() -> None:
    said = ended(
        state_of(chat(VECTOR, evaluation(VECTOR, timed(1.5)))), "rounds", notes=["kept in best.cu"]
    )
    assert said.best == Kernel(words="", source=VECTOR).candidate and said.ratio == 1.5
    assert "estimated 1.50x" in said.words and said.words.endswith("Kept in best.cu.")


def test_a_run_without_gain_says_so() -> None:
    said = ended(state_of(baseline_turns()), "no_plan")
    assert said.best is None and "No candidate was accepted: none was written." in said.words


def test_what_was_not_timed_is_not_called_not_faster() -> None:
    """Rejected by the human, wrong, or not run: nobody knows whether it is faster."""
    rejected = Approval(candidate=candidate_id(VECTOR), decision="reject", reason="no")
    turns = [*chat(VECTOR, build(VECTOR)), Turn("human", rejected)]
    assert (
        "No candidate was accepted: 1 rejected by the human."
        in ended(state_of(turns), "rounds").words
    )
    turns += chat(OTHER, evaluation(OTHER, timed(0.9, "slower")))[-3:]
    said = ended(state_of(turns), "rounds").words
    assert "faster than the baseline among those that were timed; 1 rejected by the human" in said
    wrong = chat(VECTOR, evaluation(VECTOR, WRONG_OUTCOME))
    assert "No candidate was accepted: 1 that failed." in ended(state_of(wrong), "rounds").words


def test_the_fastest_tie_by_estimate_is_left_to_a_gpu() -> None:
    slow, fast = (evaluation(VECTOR, timed(ratio, "tie")) for ratio in (1.005, 1.31))
    said = ended(state_of(chat(VECTOR, build(VECTOR), fast)), "no_plan")
    assert said.best is None and fast.candidate in said.words and "at 1.31x" in said.words
    assert "--rejudge --device cuda" in said.words
    said = ended(state_of(chat(VECTOR, build(VECTOR), slow)), "no_plan")
    assert "No candidate was faster than the baseline." in said.words


@pytest.mark.parametrize("reason", ["interrupted", "waiting", "budget"])
def test_of_a_run_that_goes_on_nothing_final_is_said(reason: EndReason) -> None:
    said = ended(state_of(chat(VECTOR, build(VECTOR))), reason)
    assert "No candidate has been accepted so far." in said.words


def test_an_error_is_kept_with_its_class() -> None:
    said = ended(state_of(baseline_turns()), "error", ValueError("why"))
    assert said.error == "ValueError: why" and "not the cause" in said.words
