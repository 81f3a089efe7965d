"""Sums below the normal numbers on both engines."""

from __future__ import annotations

from tests.c_engine.both import engines, on_both_engines

globals().update(on_both_engines("test_flushed_sums"))


def test_they_run_on_the_c_engine() -> None:
    assert "kernel" not in engines.only_numpy
