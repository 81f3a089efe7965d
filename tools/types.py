"""Astra's values: device, outcome, evaluation; and those of case.py and dtypes.py."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from astra_chat.tools.case import AnyFamily as AnyFamily
from astra_chat.tools.case import Case as Case
from astra_chat.tools.case import Value as Value
from astra_chat.tools.case import ValueFamily as ValueFamily
from astra_chat.tools.case import is_empty
from astra_chat.tools.dtypes import C_TYPES as C_TYPES
from astra_chat.tools.dtypes import DTYPE_CODES as DTYPE_CODES
from astra_chat.tools.dtypes import DTYPES as DTYPES
from astra_chat.tools.dtypes import ITEM_BYTES as ITEM_BYTES
from astra_chat.tools.dtypes import DTypeName as DTypeName
from astra_chat.tools.dtypes import is_float as is_float

DeviceKind = Literal["cuda", "virtual"]
Basis = Literal["measured", "estimated"]
How = Literal["fresh", "same_buffers", "graph", "overlapped"]
"""A call to check is made in buffers of its own, in those of the call before it (whose case has the
same shapes), or under CUDA-graph capture and then replayed (device `cuda`)."""
StepName = Literal["guard", "build", "audit", "plan", "check", "sanitize", "time", "profile"]

Seconds = Annotated[float, Field(ge=0, le=1e10)]
Microseconds = Annotated[float, Field(ge=0, le=1e16)]
Ratio = Annotated[float, Field(gt=0, le=1e12)]  # of two times


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def canonical_sha256(value: object) -> str:
    """Returns the sha256 of a JSON value with sorted keys and no spaces."""
    return sha256_of(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


def candidate_id(source: str) -> str:
    """A candidate's name: the first 12 hex digits of its source's sha256."""
    return sha256_of(source)[:12]


class Device(Value):
    """Where a kernel ran."""

    kind: DeviceKind
    index: int = Field(default=0, ge=0, le=1023)
    name: str = Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")
    """Device name according to the driver, such as "NVIDIA H200", or "virtual GPU"."""
    arch: str = Field(pattern=r"^sm_[0-9]{2,3}[a-z]?$")
    """Architecture that the code was built for, such as "sm_90"."""
    spec: str = Field(pattern=r"^[a-z0-9_.-]{1,40}$")
    """Key of the constants used for limits and estimates: "h200" (gpu_specs.py)."""


class Finding(Value):
    """One place in a source that the policy forbids."""

    line: int
    what: str


class Resources(Value):
    """What ptxas reports for one kernel of a build."""

    kernel: str
    """Mangled name of the kernel."""
    registers: int
    static_shared_bytes: int
    spill_bytes: int
    """Bytes of spill stores plus spill loads."""
    stack_bytes: int


class Metric(Value):
    """One profiled figure."""

    name: str
    """Nsight Compute's name on `cuda`, the counter's name on `virtual`."""
    value: float
    unit: str
    words: str
    """What it means, for a reader who does not know the name."""


def place_text(line: int, *calls: int) -> str:
    """ "line 56, inlined at 104": a line, and those of the calls that it is inlined at."""
    return f"line {line}" + "".join(f", inlined at {call}" for call in calls)


class SourceLine(Value):
    """What a line of the source costs the longest warp of a block, according to the machine
    code."""

    line: int
    calls: tuple[int, ...] = Field(default=(), exclude_if=is_empty)
    """Lines of the calls at which this line is inlined, innermost first."""
    text: str
    chain_cycles: float
    """Cycles that this line contributes to the warp's longest chain of dependent instructions."""
    load_rounds: float
    """How often the warp waits for a load of this line."""
    waited_at: str = Field(default="", exclude_if=is_empty)
    """Where the warp waits for the load, as `place` of another line; if there are several, the one
    with the most rounds."""

    @property
    def place(self) -> str:
        """ "line 56, inlined at 104"."""
        return place_text(self.line, *self.calls)


NOT_PROFILED = "not profiled"
"""Where the bottleneck would be named, if the machine gave counters."""


class Profile(Value):
    """What limits the speed of a kernel on one case."""

    basis: Basis
    case: Case
    metrics: tuple[Metric, ...]
    bottleneck: str
    """One of metrics.BOTTLENECKS, or NOT_PROFILED."""
    why: str
    limit_us: float
    """Physical limit: the largest of minimum bytes over bandwidth, flops over peak, and the launch
    floor."""
    percent_of_limit: float
    lines: tuple[SourceLine, ...] = Field(default=(), exclude_if=is_empty)
    """Cost of each source line according to the virtual GPU, in source order; if there are several
    launches, those of the longest."""

    def metric(self, name: str) -> Metric | None:
        return next((m for m in self.metrics if m.name == name), None)


class MemoryUse(Value):
    """Bytes that a call needs besides its inputs: results, and workspaces as far as it uses
    them."""

    bytes: int = Field(ge=0)
    baseline_bytes: int = Field(ge=0)
    eager_bytes: int = Field(ge=0)
    """What PyTorch's own operators allocate, according to the contract."""

    @property
    def text(self) -> str:
        """ "1.2 MB, the baseline 8.4 MB, eager PyTorch 131 MB (0.9 %)"."""
        share = f" ({100 * self.bytes / self.eager_bytes:.2g} %)" if self.eager_bytes else ""
        sizes = (self.bytes, self.baseline_bytes, self.eager_bytes)
        own, baseline, eager = (f"{size / 1e6:.3g} MB" for size in sizes)
        return f"{own}, the baseline {baseline}, eager PyTorch {eager}{share}"


class CaseTime(Value):
    """Baseline and candidate on one case, L2-cold device time per call."""

    case: Case
    weight: float = Field(ge=0, le=1e12)
    baseline_us: Microseconds
    median_us: Microseconds
    ratio: Ratio
    """Baseline over candidate: above 1 is faster."""
    ratio_low: Ratio
    ratio_high: Ratio
    """95 % interval if measured, the model's error bar if estimated."""
    limit_us: Microseconds
    percent_of_limit: float
    memory: MemoryUse | None = Field(default=None, exclude_if=lambda memory: memory is None)
    """None: the contract does not ask for it, or not all blocks of a call ran."""


class MeasuredTime(CaseTime):
    """Time measured by CUDA graph replay over buffers rotated past L2, and by event pairs around
    single launches."""

    basis: Literal["measured"] = "measured"
    baseline_event_us: float
    event_us: float
    """Median of one torch.cuda.Event pair per launch: launch overhead included."""
    sm_clock_mhz: int
    note: str = ""
    baseline_warm_us: float | None = None
    warm_us: float | None = None
    """Replays over one set of buffers: the data stays in L2 if it fits."""
    noise: float = 0.0
    """Apparent speedup of the baseline over itself in the same session (A/A); no interval is
    narrower."""
    blocks: int = 0
    """ABBA blocks from which the ratio is computed."""
    gpu: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    """NVML's readings at each block, discarded blocks included: clocks, temperature, power,
    throttle reasons as a bit mask."""
    profiled_us: float | None = None
    baseline_profiled_us: float | None = None
    launches: int = 0
    baseline_launches: int = 0
    """Sum of Nsight Compute's durations of the launches of a call, and their number; None: not
    profiled."""
    raw: str = Field(default="", max_length=2**20)
    """All samples from which these figures are computed, compressed (timing/raw_samples.py); empty
    in old transcripts."""


class EstimatedTime(CaseTime):
    """Time estimated from the virtual GPU's counters by its performance model."""

    basis: Literal["estimated"] = "estimated"
    limiter: str
    """The model's largest term; same values as Profile.bottleneck."""
    note: str = ""
    """A remark on the run, such as which sample of blocks ran."""


AnyTime = Annotated[MeasuredTime | EstimatedTime, Field(discriminator="basis")]


class Refused(Value):
    """The source or the built object violates the policy."""

    kind: Literal["refused"] = "refused"
    gate: Literal["guard", "audit", "plan"]
    findings: tuple[Finding, ...]


class BuildFailed(Value):
    """nvcc or the linker reported an error."""

    kind: Literal["build_failed"] = "build_failed"
    log: str
    """The errors, shortened, each with its source line."""


class Unsupported(Value):
    """No statement about the kernel: the virtual GPU does not support one of its instructions, or
    the baseline fails so many drawn cases that too few are left."""

    kind: Literal["unsupported"] = "unsupported"
    what: str
    """The part of the instruction that is not supported, or why there are too few cases."""
    kernel: str
    opcode: str
    """Opcode of the instruction; "" if there were too few cases."""
    line: int
    """PTX line."""


class Wrong(Value):
    """A written argument differs from the oracle, or a read-only one was changed."""

    kind: Literal["wrong"] = "wrong"
    case: Case
    argument: str
    reason: Literal[
        "value",
        "nan_pattern",
        "unwritten",
        "input_changed",
        "write_outside",
        "precision",
        "not_accepted",
        "distribution",
        "batch_variant",
        "ranks_differ",
    ]
    index: tuple[int, ...]
    """First bad element."""
    expected: float
    got: float
    bad: int
    total: int
    """Number of compared elements that differ."""
    note: str = ""


class Unsafe(Value):
    """A sanitizer's finding: out of bounds, misaligned, race, divergent barrier."""

    kind: Literal["unsafe"] = "unsafe"
    case: Case
    what: str
    where: str
    """Kernel, source line, block and thread."""


class Crashed(Value):
    """The runner process died, or the launcher returned a CUDA error."""

    kind: Literal["crashed"] = "crashed"
    case: Case
    message: str


class Implausible(Value):
    """A time that no honest kernel can reach: below the physical limit, or inconsistent with the
    host's clock."""

    kind: Literal["implausible"] = "implausible"
    case: Case
    median_us: float
    why: str


class TimedOut(Value):
    """A step exceeded its time limit; reported as a hang, never as a score."""

    kind: Literal["timed_out"] = "timed_out"
    step: Literal["build", "plan", "check", "sanitize", "time", "profile"]
    limit_s: float
    """0 where the ranks of a group wait for each other for ever."""
    note: str = Field(default="", exclude_if=is_empty)
    """Which rank of a group of GPUs did not continue."""


class Correct(Value):
    """Correct on all cases; not timed."""

    kind: Literal["correct"] = "correct"
    cases: int
    sampled: tuple[str, ...] = ()
    """Cases, as text, of which the virtual GPU ran only a stated sample of the blocks."""
    worst: float
    """Largest |got - expected| / (atol + rtol |expected|) over all cases; at most 1."""
    hidden: int = 0
    """How many of the cases were drawn from the valid domain."""
    error_ratio: float | None = None
    """Largest error norm over that of the baseline (check/error_norms.py); None: not compared."""
    deterministic: bool | None = None
    """Whether repeated calls gave identical bits; None: no call was repeated."""
    left_out: int = Field(default=0, exclude_if=lambda count: not count)
    """Further cases that are not used to judge kernels, because the baseline fails them."""


class Timed(Value):
    """Correct on all cases, and timed against the baseline."""

    kind: Literal["timed"] = "timed"
    correct: Correct
    cases: tuple[AnyTime, ...] = Field(min_length=1)
    ratio: Ratio
    """Weighted geometric mean over the cases."""
    verdict: Literal["accepted", "tie", "slower"]
    why: str
    profile: Profile
    """Profile of the case with the largest weight."""
    other_profiles: tuple[Profile, ...] = ()  # of the other timed cases; old transcripts have none

    @property
    def basis(self) -> Basis:
        return self.cases[0].basis

    @property
    def memory_share(self) -> float | None:
        """Memory over the baseline's, as a weighted geometric mean; None where it is not known of
        every case."""
        return memory_share(self.cases)


def memory_share(cases: Sequence[CaseTime]) -> float | None:
    """Memory over the baseline's in these cases, as a weighted geometric mean; None where it is not
    known of every case."""
    uses = [(one.memory, one.weight) for one in cases if one.memory]
    if len(uses) < len(cases) or not sum(weight for _, weight in uses):
        return None
    logs = [w * math.log(max(m.bytes, 1) / max(m.baseline_bytes, 1)) for m, w in uses]
    return math.exp(sum(logs) / sum(weight for _, weight in uses))


Outcome = Annotated[
    Refused
    | BuildFailed
    | Unsupported
    | Wrong
    | Unsafe
    | Crashed
    | TimedOut
    | Implausible
    | Correct
    | Timed,
    Field(discriminator="kind"),
]
