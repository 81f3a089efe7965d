"""cp.async on both engines."""

from __future__ import annotations

from tests.c_engine.both import engines, on_both_engines

globals().update(on_both_engines("test_cp_async"))


def test_copies_run_on_the_c_engine() -> None:
    assert not any("pipeline" in name or "wait" in name for name in engines.only_numpy)
