from __future__ import annotations

from collections import Counter
from dataclasses import replace

from astra_vgpu.types import Counters


def as_on_file(counters: Counters) -> Counters:
    """Without what the critical path is made of: no estimate needs it, so it is not on file."""
    return replace(
        counters,
        critical_path_before_load=0,
        critical_path_units=Counter(),
        critical_path_lines=Counter(),
        critical_path_load_lines=Counter(),
    )
