"""What the judge asks of a runner process and what that reports: frozen values, parsed once.

The process that captures a shipped launcher has a candidate's host code in it: its reports are
hostile data, and one that does not parse is a fault of the candidate (BadReport).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from astra_chat.tools.entropy import NO_SEED, Seed
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.types import Case, How
from astra_chat.tools.virtual_gpu.adapter import Counters, Engine, Estimate

Mode = Literal["check", "time", "profile"]
TimedMode = Literal["cold", "warm", "events"]
"""Replays with nothing in the L2 or with the data there; launches with an event pair around each.
"""


Extended = TypeVar("Extended", bound="CudaRequest")
Parsed = TypeVar("Parsed", bound="Message")


class BadReport(ValueError):
    """A report that no runner process of ours writes."""


class Message(BaseModel):
    """A frozen part of a request or a report; what it does not know is refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_bytes="hex", val_json_bytes="hex"
    )


class WatchedBytes(Message):
    """Bytes of an argument's buffer."""

    argument: str
    start: int = Field(ge=0)
    size: int = Field(ge=1)


class CallRequest(Message):
    """One call to run: where its inputs lie and where the bytes after the call go."""

    case: Case
    inputs: Path
    """Folder of the inputs; expected outputs lie elsewhere."""
    after: Path
    how: How = "fresh"
    pattern: int = 0
    """The 16 bits that outputs, guards and paddings hold before the call, over and over."""
    turn: int = 0
    seed: Seed = NO_SEED
    """What is drawn for this call follows from it."""
    together: bool = False
    """Whether its results are judged as a whole, for which all blocks have to run."""
    plan: LaunchPlan | None = None
    """What is launched."""
    baseline_plan: LaunchPlan | None = None
    """What the baseline launches, where it is timed in the same process."""
    watched: WatchedBytes | None = None
    """Bytes of which the report says what stored to them last; on the virtual GPU's NumPy
    engine."""

    @property
    def baseline_launches(self) -> LaunchPlan:
        """Launch plan of the baseline. Raises ValueError where there is none."""
        if self.baseline_plan is None:
            raise ValueError(f"{self.case.label}: no launch plan of the baseline in the request")
        return self.baseline_plan

    @property
    def launches(self) -> LaunchPlan:
        """Launch plan of the call. Raises ValueError where there is none."""
        if self.plan is None:
            raise ValueError(f"{self.case.label}: no launch plan in the request")
        return self.plan


class CudaRequest(Message):
    """A run on a real GPU."""

    task: Path
    mode: Mode
    index: int = Field(ge=0)
    """Number of the GPU, as CUDA counts."""
    cubin: Path
    seed: Seed
    calls: tuple[CallRequest, ...]
    baseline_cubin: Path | None = None
    """Cubin of the baseline, where that runs in the same process."""
    least_blocks: int | None = Field(default=None, ge=1)
    """Least number of timed blocks; None: as few as suffice."""

    def extended(self, kind: type[Extended], **more: Any) -> Extended:
        """Returns this run as a request of another child process, with `more` fields."""
        return kind(**dict(self), **more)


class SweepRequest(CudaRequest):
    """Many calls of candidate and baseline, compared on the device (runners/cuda_sweep.py)."""

    baseline_cubin: Path


class SanitizedRequest(CudaRequest):
    """A run under Compute Sanitizer or Nsight Compute (runners/cuda_once.py)."""

    handed_back: tuple[bool, ...] | None = None
    """Whether the judge gets what each run of a call leaves, by call. None: no results, and no run
    in a CUDA graph."""


class ProfiledRequest(CudaRequest):
    """A run under Nsight Compute's clock (runners/cuda_profiled.py)."""

    marker: str
    """Name of the kernel between calls."""
    times: tuple[int, ...]
    """How often each call runs."""


class CountersRequest(CudaRequest):
    """A run under CUPTI's range profiler (runners/cuda_counters.py)."""

    metrics: tuple[str, ...]


class ModuleRequest(CudaRequest):
    """A PyTorch module timed beside a candidate (runners/cuda_module.py)."""

    caches: int = Field(ge=0)
    """How often torch.compile compiles it for each case, each time from empty caches."""
    how: str
    """Mode of torch.compile."""


class CaptureRequest(CudaRequest):
    """The launcher itself, captured (runners/cuda_capture.py)."""

    library: Path


class VirtualRequest(Message):
    """A run on the virtual GPU."""

    task: Path
    ptx: Path
    spec: str
    engine: Engine
    descending: bool
    """The order of atomics, as of memory/buffers.py."""
    counters: bool
    compiled: dict[str, Path]
    """Libraries of the C engine by kernel."""
    resources: dict[str, tuple[int, int]]
    """Registers and static shared bytes by kernel."""
    seed: Seed
    calls: tuple[CallRequest, ...]


class CountedLaunch(Message):
    """What the virtual GPU counted of one launch."""

    kernel: str
    scale: float
    """Blocks of the grid for each block that ran."""
    counters: Counters


class UnsupportedCall(Message):
    """What the virtual GPU lacks; fields as of types.Unsupported."""

    what: str
    opcode: str
    kernel: str
    line: int


class UnsafeCall(Message):
    """A fault of a kernel; fields as of types.Unsafe."""

    what: str
    where: str


class FetchedSet(Message):
    """A buffer set of timed launches that was handed to the judge, in a folder of its own:
    <arg>.after of each written argument, <arg>.in of each input."""

    mode: TimedMode
    number: int = Field(ge=0)
    own: bool = False
    """Its inputs are the case's own, and in no file."""
    baseline: bool = False
    """What the baseline made of the same inputs is in the folder `baseline` in it."""

    @property
    def folder(self) -> str:
        return f"{self.mode}-{self.number}"


class StoredBlocks(Message):
    """Which bytes of an argument the blocks of one launch stored to."""

    argument: str
    kernel: str
    grid: tuple[int, int, int]
    blocks: tuple[tuple[int, int, int], ...]
    """Each block that ran, in order: its linear number, the first byte and the end of the last, -1
    where it stored nothing there."""
    dense: bool
    """Whether all bytes between were stored to."""


# What timing on a real GPU measured: the time of every replay and event pair, frozen.

PairUs = tuple[float, float]
"""Two replays of a block, in order; microseconds a launch."""


class Raw(BaseModel):
    """Raw figures of a runner process; a field that it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ClockReading(Raw):
    """NVML's reading after a block."""

    sm_clock_mhz: int
    memory_clock_mhz: int
    temperature_c: int
    power_w: int
    throttle_reasons: int
    """NVML's bit mask."""
    throttled: bool
    """Whether a reason among them slows the clock for heat or power."""


class Block(Raw):
    """One block of cold replays: ABBA or BAAB, and the baseline's control twice."""

    candidate_first: bool
    baseline: PairUs
    candidate: PairUs
    control: PairUs
    """A second CUDA graph of the baseline: what it gains over the first is noise (A/A)."""
    spent_s: float
    """Seconds since timing of the case began."""
    clock: ClockReading

    @property
    def baseline_us(self) -> float:
        return mean(self.baseline)

    @property
    def candidate_us(self) -> float:
        return mean(self.candidate)

    @property
    def control_us(self) -> float:
        return mean(self.control)


class WarmReplay(Raw):
    """Microseconds a launch with the data in the L2."""

    baseline_us: float
    candidate_us: float


class RawTimes(Raw):
    """All that was measured of baseline and candidate on one case."""

    blocks: tuple[Block, ...] = Field(min_length=1)
    warm: tuple[WarmReplay, ...] = Field(min_length=1)
    baseline_event_us: tuple[float, ...] = Field(min_length=1)
    """Time of each launch of the baseline by an event pair around it, warm-up left out."""
    candidate_event_us: tuple[float, ...] = Field(min_length=1)
    """Time of each launch of the candidate by an event pair around it, warm-up left out."""
    spaced: bool
    """Whether another kernel stood between all launches; its time is subtracted."""
    event_us: float
    """Time by events of the replays that were least late for the host, one of each kind of graph,
    added up, in us. Until November 2026: of all replays."""
    host_us: float
    """Time of the replays of `event_us` by the host's clock."""
    other_processes: int = 0
    """Processes beside the runner that had work on the GPU."""


class CaseReport(Message):
    """How one call ended."""

    index: int = Field(default=0, ge=0)
    status: int = 0
    """The launcher's cudaError_t, or that of the plan's replay."""
    unsupported: UnsupportedCall | None = None
    unsafe: UnsafeCall | None = None
    seconds: float = 0.0
    guard_bytes: int = Field(default=0, ge=0)
    """Guard bytes before and after each argument, in its file."""
    unchanged: tuple[str, ...] = ()
    """Arguments that may only be read and hold all that they held before: they have no file."""
    copies: int = Field(default=1, ge=1)
    """Calls whose results are in its files, one after the other."""
    sets: tuple[FetchedSet, ...] = ()
    """Buffer sets of timed launches that were handed over, in place of files of its own."""
    compared: int = Field(default=0, ge=0)
    """Results of timed sets that were compared with the baseline's on the device."""
    compared_s: float = 0.0
    """What the comparison took, the baseline's launches and files for the judge included."""
    doubtful: int = Field(default=0, ge=0)
    """Compared results that differ by more than twice the tolerance."""
    changed: str = ""
    """A module variable that the call wrote to, or that holds something else after it."""
    parts: str = ""
    """Where a captured launcher parts from its plan."""
    touched: tuple[str, ...] = ()
    """Arguments that a timed launch changed and may not."""
    stored_by: str = ""
    """What stored to the watched bytes last: file and line, block and thread."""
    warnings: dict[str, str] = Field(default_factory=dict)
    """What is no fault and yet wrong, by where it is."""
    sampled: str = ""
    """How many blocks ran, where not all did."""
    sampled_share: float = 1.0
    spread_blocks: int = 0
    """Blocks of a sample that is spread over its grid; 0 of the first ones."""
    wrote: dict[str, int] | None = None
    """How many bytes of each written argument a far call stored to; None where not all blocks ran
    or the arguments are too large to count."""
    stored: tuple[StoredBlocks, ...] = ()
    """Where the blocks of a far call that ran stored to."""
    left: dict[str, str] = Field(default_factory=dict)
    """What a far call left in its written arguments of floats, all of it or the first and last
    rows, as hexadecimal digits."""
    wrote_of_left: dict[str, str] = Field(default_factory=dict)
    """Where not all blocks ran: which of these elements were stored to, as bits."""
    on_numpy: dict[str, str] = Field(default_factory=dict)
    """Why a kernel ran on the NumPy engine although the C engine was asked for, by kernel."""
    workspace_bytes: int | None = Field(default=None, ge=0)
    """Bytes of the workspaces up to the last one that a call wrote to, of all of them together;
    None: nobody looked, or not all blocks ran."""
    baseline_workspace_bytes: int | None = Field(default=None, ge=0)
    """Those of the baseline, where it runs in the same process."""
    estimate: Estimate | None = None
    launches: tuple[CountedLaunch, ...] = ()
    times: RawTimes | None = None
    """Raw times of a run in mode `time` on a real GPU."""
    host_us: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """What a captured call kept the host busy."""

    def numbered(self, index: int) -> dict[str, Any]:
        """Returns this report with the number of its call, in JSON's types."""
        return self.model_copy(update={"index": index}).model_dump(mode="json")

    @property
    def estimated(self) -> Estimate:
        """Estimate of a run in mode `time` on the virtual GPU. Raises ValueError where there is
        none."""
        if self.estimate is None:
            raise ValueError("the runner process returned no estimate")
        return self.estimate

    @property
    def measured(self) -> RawTimes:
        """Raw times of a run in mode `time` on a real GPU. Raises ValueError where there are
        none."""
        if self.times is None:
            raise ValueError("the runner process returned no times")
        return self.times


class ModuleReport(Message):
    """How one way of a PyTorch module did beside the candidate on one case."""

    index: int = Field(default=0, ge=0)
    way: str
    """"eager", or "compile" and the number of the compilation; "" where the file itself fails."""
    not_run: str = ""
    """Why it was not timed."""
    report: CaseReport | None = None

    def beside(self, after: Path) -> Path:
        """Returns the folder of what was timed beside this way, by the folder of the call."""
        return after.with_name(f"{after.name}-{self.way.replace(' ', '-')}")


class SweepReport(Message):
    """How a sweep ended: what is in doubt, or the call that failed."""

    compared: int = Field(default=0, ge=0)
    doubtful: tuple[int, ...] = ()
    """Calls whose results differ by more than twice the tolerance, or that changed other bytes."""
    failed: int | None = Field(default=None, ge=0)
    by_baseline: bool = False
    status: int = 0
    """cudaError_t of the call that failed."""
    changed: str = ""
    """A module variable that does not hold after all calls what it held before."""


class LaunchFigures(Message):
    """What hardware counters, and the driver, say of one launch of a kernel."""

    kernel: str
    values: dict[str, float]
    """Figures by Nsight Compute's names."""


class CountersReport(Message):
    """The hardware counters of a run, or why there are none."""

    calls: tuple[tuple[LaunchFigures, ...], ...] = ()
    """Launches of each call, in their order."""
    units: dict[str, str] = Field(default_factory=dict)
    """CUPTI's name of each metric's unit."""
    passes: int = Field(default=0, ge=0)
    failed: int = Field(default=0, ge=0)
    """The call that failed, where `status` says how."""
    status: int = 0
    """Its cudaError_t."""
    lacks: str = ""
    """Why CUPTI cannot be used."""
    refused: bool = False
    """Whether it may not read this machine's counters: no other tool may then."""


class Started(Message):
    """A call begins."""

    index: int = Field(ge=0)


def parsed(report: Mapping[str, Any]) -> Started | CaseReport:
    """A runner process's report, of which Worker has checked the nonce. Raises BadReport."""
    if report["kind"] == "start":
        return read_report(Started, report)
    return read_report(CaseReport, report)


def read_report(kind: type[Parsed], report: Mapping[str, Any]) -> Parsed:
    """A report of that kind. Raises BadReport."""
    try:
        return kind.model_validate({name: report[name] for name in report if name != "kind"})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise BadReport(f"{place}: {first['msg']}"[:200]) from None
