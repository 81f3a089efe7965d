"""The tiers together are all tests, each once, and the first leaves no test out."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.tiers import MARK, SAMPLE, by_function, first_tier, split


@pytest.mark.parametrize("count", [0, 1, SAMPLE, SAMPLE + 1, 20, 500])
def test_a_sample_is_spread_over_all_parameters(count: int) -> None:
    places = sorted(first_tier(count))
    assert len(places) == min(count, SAMPLE)
    assert not places or (places[0], places[-1]) == (0, count - 1)
    gaps = [after - before for before, after in pairwise(places)]
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_both_tiers_together_are_all_tests(request: pytest.FixtureRequest) -> None:
    items = request.session.items
    first, second = split(items)
    assert sorted([*first, *second], key=items.index) == items
    for own in by_function(items):
        if not all(item.get_closest_marker(MARK) for item in own):
            assert set(own) & set(first), own[0].nodeid
    assert all(item not in first for item in items if item.get_closest_marker(MARK))
