"""Tensor cores on both engines."""

from __future__ import annotations

from tests.c_engine.both import engines, on_both_engines

globals().update(on_both_engines("test_tensor"))


def test_they_run_on_the_c_engine() -> None:
    assert not any(
        "mma" in name or "tile" in name or name == "transposed" for name in engines.only_numpy
    )
