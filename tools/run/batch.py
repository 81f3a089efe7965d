"""The calls of one runner process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import Mode
from astra_chat.tools.types import DeviceKind, How

RUN_TIMEOUT_S: dict[Mode, float] = {"check": 120.0, "time": 300.0, "profile": 120.0}
PATIENCE: dict[DeviceKind, float] = {"cuda": 1.0, "virtual": 5.0}
"""Factors of the time limits: 131,072 rows with a block of 1,024 threads each take the virtual GPU
minutes, and it ends by itself what never ends."""
CALL_TIMEOUT_S, SHORT_CALL_TIMEOUT_S = 15.0, 5.0
"""Time limits, in s, of a call of one launcher of several, and of a short one after the first of
its process."""
SHORT_BYTES = 2**17
"""Least bytes of a short call: it takes the virtual GPU a fraction of a second."""


@dataclass(frozen=True)
class Batch:
    """Which calls, of which build, and how."""

    build: Build
    oracle_cases: Sequence[OracleCase]
    mode: Mode
    device: DeviceKind
    baseline: Build | None = None
    hows: Sequence[How] | None = None
    turns: Sequence[int] | None = None
    plans: Sequence[LaunchPlan] | None = None
    baseline_plans: Sequence[LaunchPlan] | None = None
    apart: bool = False
    """A failure ends its call only."""
    compared_there: bool = False
    """Results are compared in the process: no call hands bytes back."""
    short: Sequence[bool] = ()
    """Whether each call is of a small case, which takes a fraction of a second; asked where calls
    are apart."""

    def folder(self, scratch: Path, place: int) -> Path:
        """Where a call's bytes go; made, unless none come."""
        folder = scratch / str(place)
        if not self.compared_there:
            folder.mkdir()
        return folder

    @property
    def limit_s(self) -> float:
        """Time limit, in s, of the whole process, or of each call where they are apart."""
        return CALL_TIMEOUT_S if self.apart else PATIENCE[self.device] * RUN_TIMEOUT_S[self.mode]

    def limit_after_s(self, done: int) -> float:
        """Returns the time limit, in s, of the next call after so many, where calls are apart."""
        short = done < len(self.short) and self.short[done]
        return SHORT_CALL_TIMEOUT_S if short else self.limit_s
