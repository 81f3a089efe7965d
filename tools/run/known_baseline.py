"""What a judge has seen of the baseline, so that no later evaluation finds it again."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from astra_chat.tools.virtual_gpu.adapter import Estimate

Call = tuple[Path, str]
"""A build's folder, and a case as JSON."""


@dataclass
class KnownBaseline:
    """What is known of the baseline of one task on one device; keys name the build and the case."""

    estimates: dict[Call, Estimate] = field(default_factory=dict)
    """Estimates of its calls on the virtual GPU: an equal call has an equal estimate."""
    host_us: dict[Call, float] = field(default_factory=dict)
    """What a call of its launcher keeps the host busy."""
    right: set[str] = field(default_factory=set)
    """Hashes of its timed results that were found right."""
