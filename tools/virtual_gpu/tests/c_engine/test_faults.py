"""What the sanitizer stops, on both engines: the same fault in the same words."""

from __future__ import annotations

from tests.c_engine.both import on_both_engines

globals().update(on_both_engines("test_faults"))
globals().update(on_both_engines("test_shared_memory_races"))
