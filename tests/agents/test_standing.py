"""How candidates stand against parent and best, which is kept, and what counts as a gain."""

from __future__ import annotations

from astra_chat.agents.run_state import state_of
from astra_chat.agents.standing import rounds_without_gain, standings
from astra_chat.agents.turns import Approval, Turn
from astra_chat.tools.timing.comparison import ESTIMATES
from astra_chat.tools.types import Timed
from tests.chat_samples import asking_turns, baseline_turns, coded, evaluation, plan, timed
from tests.tools.timing.test_comparison import measured


def rounds(*outcomes: Timed) -> list[Turn]:
    turns = baseline_turns()
    for number, outcome in enumerate(outcomes):
        source = f"// {number}"
        turns += [
            Turn("planner", plan()),
            *coded(source),
            Turn("executor", evaluation(source, outcome)),
        ]
    return turns


def texts(*ratios: float) -> list[str]:
    state = state_of(rounds(*(timed(r, "accepted" if r > 1 else "slower") for r in ratios)))
    return [one.text for one in standings(state.rounds)]


def test_a_first_gain_is_the_best() -> None:
    assert texts(1.5) == ["faster than the baseline; faster than its parent; new best, kept"]


def test_slower_than_its_parent_is_told_though_it_beats_the_baseline() -> None:
    assert texts(1.9, 1.5)[1] == (
        "faster than the baseline; slower than its parent; slower than the best, discarded"
    )


def test_in_a_tie_the_higher_ratio_is_kept_and_of_equals_the_earlier() -> None:
    higher, lower = texts(1.5, 1.52)[1], texts(1.5, 1.48)[1]
    assert higher.endswith("tie with the best, but its ratio is higher, so it is the new best")
    assert lower.endswith("tie with the best, whose ratio is higher")
    state = state_of(rounds(timed(1.5), timed(1.5)))
    assert [one.kept for one in standings(state.rounds)] == [True, False]
    assert (
        state.best is not None
        and state.best[0].candidate == state.rounds[0].attempts[0].kernel.candidate
    )


def test_what_is_kept_is_what_the_state_calls_the_best() -> None:
    for ratios in ((1.2, 1.9, 1.3), (1.9, 1.92, 1.91), (0.8, 1.1, 1.05)):
        state = state_of(rounds(*(timed(r, "accepted" if r > 1 else "slower") for r in ratios)))
        last = [one for one in standings(state.rounds) if one.kept][-1]
        assert state.best is not None and state.best[0].candidate == last.attempt.kernel.candidate


def test_a_rejected_candidate_is_not_kept() -> None:
    said = Approval(candidate="c", decision="reject", reason="no")
    turns = [*asking_turns(), *rounds(timed(1.9))[len(baseline_turns()) :], Turn("human", said)]
    assert [one.kept for one in standings(state_of(turns).rounds)] == [False]


def gone(*outcomes: Timed) -> int:
    return rounds_without_gain(state_of(rounds(*outcomes)).rounds)


def test_rounds_without_gain_are_those_at_the_end() -> None:
    assert gone(timed(1.9), timed(0.7, "slower")) == 1
    assert gone(timed(0.9, "slower"), timed(0.7, "slower")) == 2
    assert gone(timed(1.2), timed(1.9)) == 0


def test_ties_by_estimate_do_not_count_and_measured_ones_do() -> None:
    inside = (1 + ESTIMATES) / 2
    assert gone(timed(1.5), timed(1.5 * inside), timed(1.5)) == 0
    assert gone(timed(1.5), timed(1.5 * inside), timed(0.7, "slower")) == 1
    assert gone(measured(1.5), measured(1.501), measured(1.499)) == 2
    assert gone(measured(1.5), measured(1.6)) == 0
