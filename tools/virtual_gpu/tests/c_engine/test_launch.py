"""Whole kernels on both engines: every byte, counter and fault is compared."""

from __future__ import annotations

from tests.c_engine.both import on_both_engines

globals().update(on_both_engines("test_schedule"))
globals().update(on_both_engines("test_styles"))
globals().update(on_both_engines("test_counters"))
globals().update(on_both_engines("test_warps"))
