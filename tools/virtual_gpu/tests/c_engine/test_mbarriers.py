"""mbarrier and bulk copies on both engines."""

from __future__ import annotations

from tests.c_engine.both import engines, on_both_engines

globals().update(on_both_engines("test_mbarriers"))


def test_they_run_on_the_c_engine() -> None:
    names = ("barrier_sum", "specialised", "there_and_back", "noinc", "misuse")
    assert not engines.only_numpy.intersection(names)
