"""The tiers together are all tests but what a sample leaves out, each once, and the first leaves no
test out."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.sources import ROOT
from tests.tiers import (
    IN_FULL,
    LONGEST,
    MARK,
    MOST,
    SAMPLED,
    by_function,
    by_machine,
    first_tier,
    longest_first,
    split,
    spread,
)


@pytest.mark.parametrize("count", [1, 2, 20, 500])
def test_one_parameter_is_chosen_by_the_test_s_name(count: int) -> None:
    chosen = [first_tier(f"test_{n}", count) for n in range(200)]
    assert all(len(places) == 1 and max(places) < count for places in chosen)
    assert len(set().union(*chosen)) > min(count, 200) / 2, "all kinds of parameters are met"
    assert not first_tier("test_none", 0)


@pytest.mark.parametrize(("count", "sample"), [(2, 2), (20, 3), (500, 40)])
def test_a_sample_is_spread_over_all_parameters(count: int, sample: int) -> None:
    places = sorted(spread(count, sample))
    assert len(places) == sample and (places[0], places[-1]) == (0, count - 1)
    gaps = [after - before for before, after in pairwise(places)]
    assert max(gaps) - min(gaps) <= 1


def test_both_tiers_together_are_all_tests_or_a_stated_sample(
    request: pytest.FixtureRequest,
) -> None:
    items = request.session.items
    first, second = split(items)
    assert not set(first) & set(second)
    for own in by_function(items):
        if own[0].get_closest_marker(IN_FULL):
            assert not set(own) & {*first, *second}
            continue
        mark = own[0].get_closest_marker(SAMPLED)
        most = mark.args[0] if mark else MOST
        for some in by_machine(own):
            ran = [item for item in some if item in {*first, *second}]
            assert len(ran) >= min(len(some), most), own[0].nodeid
        if not all(any(map(item.get_closest_marker, (MARK, "gpu"))) for item in own):
            assert set(own) & set(first), own[0].nodeid
    assert all(item not in first for item in items if item.get_closest_marker(MARK))


def test_files_that_take_longest_begin_first(request: pytest.FixtureRequest) -> None:
    assert all((ROOT / name).is_file() for name in LONGEST)
    items = request.session.items
    ordered = longest_first([*items[1:], items[0]])
    places = [str(item.path.relative_to(ROOT)) in LONGEST for item in ordered]
    assert places == sorted(places, reverse=True) and set(ordered) == set(items)
