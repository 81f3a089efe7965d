"""Strategies: the words for them, and what each continues from."""

from __future__ import annotations

import pytest

from astra_chat.agents.strategy import Strategy, Tried, choose_parent, named, parse_strategy
from astra_chat.tools.types import candidate_id
from tests.chat_samples import SCALAR, WRONG_OUTCOME, evaluation, timed


def tried(ratio: float | None, parent: int = 0, accepted: bool | None = None) -> Tried:
    """A candidate with this ratio; None: it was wrong."""
    if ratio is None:
        return Tried(evaluation(SCALAR, WRONG_OUTCOME), parent, accepted=False)
    better = ratio > 1.01 if accepted is None else accepted
    return Tried(
        evaluation(SCALAR, timed(ratio, "accepted" if better else "slower")), parent, better
    )


BASELINE = tried(1.0)


@pytest.mark.parametrize("words", ["best", "paper", "tree", "single", "beam:4", "beam:4x2"])
def test_words_and_back(words: str) -> None:
    assert str(parse_strategy(words)) == words


@pytest.mark.parametrize(
    "words", ["", "greedy", "beam", "beam:", "beam:0", "beam:17", "beam:2x0", "beam:2x9", "beam:-1"]
)
def test_other_words_are_refused(words: str) -> None:
    with pytest.raises(ValueError, match=r"use best|1 to 16 parents"):
        parse_strategy(words)


@pytest.mark.parametrize("words", ["best", "paper", "tree", "single", "beam:3"])
def test_all_begin_with_the_baseline(words: str) -> None:
    assert choose_parent(parse_strategy(words), [BASELINE], 0) == 0


def test_a_correct_candidate_is_found_by_its_name_and_no_other() -> None:
    found = [tried(None), tried(1.2)]
    assert named(found, candidate_id(SCALAR)) == (1, found[1].evaluation)
    assert named(found, "0" * 12) is None and named(found, "") is None
    assert named(found[:1], candidate_id(SCALAR)) is None


def test_best_goes_on_from_the_best_accepted() -> None:
    found = [BASELINE, tried(1.2), tried(1.5), tried(1.4), tried(1.9, accepted=False)]
    assert choose_parent(Strategy(), found, 4) == 2
    assert choose_parent(Strategy(), [BASELINE, tried(0.9), tried(None)], 2) == 0


def test_paper_goes_on_from_the_last_right_one_faster_or_not() -> None:
    chain = parse_strategy("paper")
    assert choose_parent(chain, [BASELINE, tried(1.5), tried(0.8), tried(None)], 3) == 2
    assert choose_parent(chain, [BASELINE, tried(None)], 1) == 0


def test_beam_takes_turns_among_the_best_right_ones() -> None:
    beam = parse_strategy("beam:2")
    found = [BASELINE, tried(1.2), tried(1.5), tried(None), tried(0.9)]
    assert [choose_parent(beam, found, rounds) for rounds in (4, 5, 6)] == [2, 1, 2]
    assert [choose_parent(beam, [BASELINE, tried(0.9)], n) for n in (0, 1)] == [0, 1]


def test_tree_leaves_a_parent_whose_children_bring_nothing() -> None:
    tree = parse_strategy("tree")
    found = [BASELINE, tried(1.3)]
    visited = []
    for _ in range(8):
        parent = choose_parent(tree, found, len(found) - 1)
        visited.append(parent)
        found.append(tried(1.0, parent))
    assert 1 in visited and 0 in visited, "it tries the good one, and does not stay with it"


def test_tree_follows_what_gains() -> None:
    tree = parse_strategy("tree")
    found = [BASELINE, tried(1.5), tried(1.0), tried(1.9, 1), tried(None)]
    assert choose_parent(tree, found, 4) in (1, 3)


def test_tree_never_goes_on_from_what_is_wrong() -> None:
    tree, found = parse_strategy("tree"), [BASELINE]
    for number in range(12):
        parent = choose_parent(tree, found, number)
        assert found[parent].correct
        found.append(tried(None if number % 2 else 1.0 + number / 20, parent))
