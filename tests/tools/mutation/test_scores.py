"""What a score says: who is new, who lives, what is kept."""

from __future__ import annotations

from astra_chat.tools.mutation.scores import CaseScore, CaseScores, SuiteScore
from tests.chat_samples import CASE

OTHER = CASE.model_copy(update={"dims": {"rows": 1, "d": 4}})
THIRD = CASE.model_copy(update={"dims": {"rows": 2, "d": 4}})
SCORES = CaseScores(
    asked=12,
    mutants=("a", "b", "c"),
    own=("a",),
    cases=(
        CaseScore(case=CASE, kills=("a", "b")),
        CaseScore(case=OTHER),
        CaseScore(case=THIRD, unjudged="too large"),
    ),
)


def test_a_case_that_kills_none_is_dropped_unless_nothing_can_be_said() -> None:
    assert SCORES.dropped == (OTHER,)
    assert (SCORES.lived, SCORES.new, SCORES.survivors) == (("b", "c"), ("b",), ("c",))
    assert SCORES.summary() == (
        "the task's own cases kill 1 of 3 seeded bugs of the baseline; the 3 proposed ones kill 1"
        " of the 2 surviving ones; 1 that kill none are not kept"
    )


def test_without_mutants_all_cases_are_kept() -> None:
    none = SCORES.model_copy(update={"mutants": (), "own": ()})
    assert none.dropped == () and "all cases are kept" in none.summary()


def test_a_suite_names_what_it_misses() -> None:
    score = SuiteScore(mutants=("a", "b", "c"), own=("a",), drawn=("b",))
    assert score.lines() == [
        "seeded bugs: the check cases kill 1 of 3",
        "  killed by drawn cases only: b",
        "  survived (possibly an equivalent mutant): c",
    ]
