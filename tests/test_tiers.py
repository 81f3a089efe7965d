"""The tiers together are all tests but what a sample leaves out, each once, and the first leaves no
test out."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.tiers import MARK, SAMPLE, SAMPLED, by_function, first_tier, split


@pytest.mark.parametrize("count", [0, 1, SAMPLE, SAMPLE + 1, 20, 500])
def test_a_sample_is_spread_over_all_parameters(count: int) -> None:
    places = sorted(first_tier(count))
    assert len(places) == min(count, SAMPLE)
    assert not places or (places[0], places[-1]) == (0, count - 1)
    gaps = [after - before for before, after in pairwise(places)]
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_both_tiers_together_are_all_tests_or_a_stated_sample(
    request: pytest.FixtureRequest,
) -> None:
    items = request.session.items
    first, second = split(items)
    assert not set(first) & set(second)
    for own in by_function(items):
        ran = [item for item in own if item in {*first, *second}]
        mark = own[0].get_closest_marker(SAMPLED)
        assert len(ran) == len(own) or (mark and len(ran) >= mark.args[0]), own[0].nodeid
        if not all(item.get_closest_marker(MARK) for item in own):
            assert set(own) & set(first), own[0].nodeid
    assert all(item not in first for item in items if item.get_closest_marker(MARK))
