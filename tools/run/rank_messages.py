"""What a group asks its ranks, and what they report: lines of JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.run.protocol import CaseReport
from astra_chat.tools.types import Case, Value


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
    """Those that are called, then those that are counted."""
    counted: int = 0
    """The last so many cases are counted on a virtual GPU after the check, not checked."""
    sides: tuple[RankSide, ...]
    """The candidate; where times are measured, the baseline too, as the last."""
    seed: str
    calls: int = 0
    """Calls of the check."""
    burst: int = 20
    """Calls that are put on the stream before the host waits."""
    rounds: int = 0
    """Samples of each side and case, where times are measured; 0: the calls are checked."""
    meeting: Path | None = None
    """File by which ranks find each other, where a library of theirs needs one."""


class Launched(Value):
    """All calls of a burst are on the stream, or those of a case's samples."""

    event: Literal["launched"] = "launched"
    number: int


class WrongCall(Value):
    """The first wrong result of a burst."""

    call: int
    case: Case
    argument: str
    reason: Literal["value", "precision", "input_changed", "write_outside"]
    index: tuple[int, ...] = ()
    expected: float = 0.0
    got: float = 0.0
    bad: int = 0
    total: int = 0
    note: str = ""


class Burst(Value):
    """The calls of a burst have ended, and were compared with float64."""

    event: Literal["burst"] = "burst"
    number: int
    checksums: tuple[int, ...]
    """A number for each call, made of the bits that all ranks must hold alike."""
    wrong: WrongCall | None = None
    worst: float = 0.0
    """Largest error over what is allowed."""
    elements: int = 0
    """Elements that were compared."""


class Counted(Value):
    """What one call of a case did on this rank, with all signals there when it began."""

    event: Literal["counted"] = "counted"
    number: int
    """Place of the case among those that are counted."""
    report: CaseReport
    link_read_bytes: int
    """Bytes of peers' memory that the call read, each once."""
    link_written_bytes: int
    own_bytes: int
    """Bytes of this rank's own shared memory that it read or wrote, each once."""


class Samples(Value):
    """Times of one case."""

    event: Literal["samples"] = "samples"
    number: int
    us: dict[str, tuple[float, ...]]
    """Microseconds a call by side, in the order in which they were taken."""


class RankFailed(Value):
    """The rank cannot continue."""

    event: Literal["failed"] = "failed"
    kind: Literal["crashed", "unsafe", "timed_out", "unsupported", "lacking"]
    """A fault of the kernel, one that the virtual GPU names, ranks that wait for each other for
    ever, something that it cannot run, or a fault of the machine."""
    message: str
    where: str = ""
    opcode: str = ""
    line: int = 0


class PeerMemory(Value):
    """Where this rank's shared memory lies, for its peers to open."""

    event: Literal["memory"] = "memory"
    handles: dict[str, str]


class Done(Value):
    """The rank has nothing left to do, and keeps its memory until it is ended."""

    event: Literal["done"] = "done"
