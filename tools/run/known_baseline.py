"""What a judge has seen of the baseline, so that no later evaluation finds it again."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from astra_chat.tools.virtual_gpu.model.estimate import Estimate

Call = tuple[Path, str]
"""A build's folder, and a case as JSON."""


@dataclass
class KnownBaseline:
    """Of one task on one device; builds and cases name what it is of."""

    estimates: dict[Call, Estimate] = field(default_factory=dict)
    """Of its calls on the virtual GPU: the same is the same again."""
    host_us: dict[Call, float] = field(default_factory=dict)
    """What a call of its launcher keeps the host busy."""
    right: set[str] = field(default_factory=set)
    """Hashes of its timed results that were found right."""
