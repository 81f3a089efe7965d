"""What a score says: who is new, who lives, what is kept."""

from __future__ import annotations

from astra_chat.tools.mutation.scores import CaseScore, CaseScores, SuiteScore, together
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
        "the task's own cases detect 1 of 3 seeded bugs of the baseline; the 3 proposed ones"
        " detect 1 of the 2 surviving ones; discarded: 1 case that detects none"
    )


def test_a_case_that_the_baseline_fails_is_not_kept() -> None:
    """Nothing can be judged there, and whoever proposed it reads so."""
    fails = CaseScore(case=THIRD, kills=(), unjudged="the baseline crashed", refused=True)
    scores = SCORES.model_copy(update={"cases": (*SCORES.cases[:2], fails)})
    assert scores.dropped == (OTHER, THIRD)
    assert "; discarded: 1 case that the baseline fails; 1 case that detects none" in str(
        scores.summary()
    )
    none = scores.model_copy(update={"mutants": (), "own": ()})
    assert (
        none.dropped == (THIRD,)
        and "all other cases count; discarded: 1 case that the" in none.summary()
    )


def test_without_mutants_all_cases_are_kept() -> None:
    none = SCORES.model_copy(update={"mutants": (), "own": ()})
    assert none.dropped == () and "all cases count" in none.summary()


def test_bugs_of_a_candidate_count_beside_the_baselines() -> None:
    other = CaseScores(
        asked=12,
        mutants=("a", "d"),
        own=(),
        harmless=("e",),
        cases=(
            CaseScore(case=CASE),
            CaseScore(case=OTHER, kills=("d",)),
            CaseScore(case=THIRD, unjudged="the source itself fails on it"),
        ),
    )
    both = together(SCORES, other, "0123")
    assert both.mutants == ("a", "b", "c", "0123: a", "0123: d") and both.own == ("a",)
    assert both.dropped == (), "the case that only the candidate's bug dies of is kept"
    assert both.survivors == ("c", "0123: a") and both.harmless == ("0123: e",)
    assert [one.unjudged for one in both.cases] == ["", "", "too large"]
    assert "1 of 5 seeded bugs of the baseline and of 0123;" in both.summary()
    assert both.summary().endswith("; left out: 1 bug that changes no result")
    unjudged = together(SCORES.model_copy(update={"cases": other.cases}), other, "0123").cases[2]
    assert unjudged.unjudged == "the source itself fails on it"
    assert CaseScores.model_validate_json(both.model_dump_json()) == both
    assert "harmless" not in SCORES.model_dump_json() and "also" not in SCORES.model_dump_json()


def test_a_suite_without_mutants_says_why_and_scores_nothing() -> None:
    none = SuiteScore(mutants=(), own=(), drawn=(), none_because="it does not build: line 3")
    assert not none.tells and "it does not build: line 3" in none.lines()[0]
    assert "0 of 0" not in none.lines()[0]


def test_a_suite_names_what_it_misses() -> None:
    score = SuiteScore(mutants=("a", "b", "c"), own=("a",), drawn=("b",))
    assert score.lines() == [
        "seeded bugs: the check cases detect 1 of 3; a sample that is too small to score the cases",
        "  detected only by drawn cases: b",
        "  survived (possibly an equivalent mutant): c",
    ]
