"""What a group asks its ranks, and what they report: lines of JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.types import Case, Value

RIVAL = "nccl"
"""The side that is NCCL's all-reduce, then a kernel: the name of its samples."""


class RankSide(Value):
    """A built kernel and what one rank launches of it."""

    name: str
    cubin: Path
    ptx: Path
    resources: dict[str, tuple[int, int]]
    """Registers and static shared bytes of each kernel."""
    plans: tuple[LaunchPlan, ...]
    """The launch plan of each case of the request."""


class RankRequest(Value):
    """What one rank has to do."""

    folder: Path
    rank: int
    ranks: int
    device: Literal["cuda", "virtual"]
    spec: str
    """Constants of the virtual GPU (gpu_specs.py)."""
    cases: tuple[Case, ...]
    sides: tuple[RankSide, ...]
    """The candidate; where times are measured, the baseline too, as the last."""
    norm: RankSide | None = None
    """The kernel that follows NCCL's all-reduce, where that rival is timed."""
    seed: str
    calls: int = 0
    """Calls of the check; 0: times are measured."""
    burst: int = 20
    """Calls that are put on the stream before the host waits."""
    rounds: int = 0
    """Samples of each side and case, when times are measured."""
    meeting: Path | None = None
    """File by which NCCL's ranks find each other."""


class Launched(Value):
    """All calls of a burst are on the stream, or those of a case's samples."""

    event: Literal["launched"] = "launched"
    number: int


class Burst(Value):
    """The calls of a burst have ended, and were compared with float64."""

    event: Literal["burst"] = "burst"
    number: int
    checksums: tuple[int, ...]
    """A number for each call, made of the bits that all ranks must hold alike."""
    wrong: str = ""
    """The first wrong result."""


class Samples(Value):
    """Times of one case."""

    event: Literal["samples"] = "samples"
    number: int
    us: dict[str, tuple[float, ...]]
    """Microseconds a call by side, in the order in which they were taken."""


class Failed(Value):
    """The rank cannot continue."""

    event: Literal["failed"] = "failed"
    kind: Literal["crashed", "unsupported", "lacking"]
    """A fault of the kernel, something that the virtual GPU cannot run, or one of the machine."""
    message: str


class Memory(Value):
    """Where this rank's shared memory lies, for its peers to open."""

    event: Literal["memory"] = "memory"
    handles: dict[str, str]


class Done(Value):
    """The rank has nothing left to do, and keeps its memory until it is ended."""

    event: Literal["done"] = "done"
