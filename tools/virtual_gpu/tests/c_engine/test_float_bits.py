"""What integer instructions see of NaNs, on both engines."""

from __future__ import annotations

from tests.c_engine.both import on_both_engines

globals().update(on_both_engines("test_float_bits"))
