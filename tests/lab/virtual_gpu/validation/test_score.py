from __future__ import annotations

import pytest

from lab.virtual_gpu.validation.score import Scored, score


def test_pairs_that_are_close_do_not_count_and_regret_is_that_of_the_named_best() -> None:
    found = score(
        [
            Scored("a", "x", 10.0, 11.0),
            Scored("a", "y", 10.5, 9.0),
            Scored("a", "z", 20.0, 30.0),
            Scored("b", "x", 10.0, 10.0),
            Scored("b", "y", 15.0, 9.0),
        ]
    )
    assert (found.points, found.pairs, found.right) == (5, 3, 2)
    assert found.worst_error == pytest.approx(0.5)
    assert found.worst_regret == pytest.approx(1.5)
    assert found.mean_regret == pytest.approx((1.05 * 1.5) ** 0.5)
    assert (found.regretted, found.groups) == (1, 2)
    assert "pairs in order 2/3" in str(found)


def test_nothing_can_not_be_scored() -> None:
    with pytest.raises(ValueError, match="nothing to score"):
        score([])
