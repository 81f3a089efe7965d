"""What the judge found about one candidate: its evaluation, step by step."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from astra_chat.tools.case import is_empty
from astra_chat.tools.known import KnownNumbers
from astra_chat.tools.types import (
    BuildFailed,
    Case,
    Device,
    How,
    Outcome,
    Refused,
    Resources,
    Seconds,
    StepName,
    TimedOut,
    Value,
)

EVALUATION_SCHEMA = "astra-chat/evaluation/1"
"""Schema of the document that `--json` prints of an evaluation or a profile."""


class GpuUse(Value):
    """A step's use of a real GPU. NVML's values are for the whole GPU, including other
    processes."""

    held_s: Seconds
    """Time in which the step held the GPU's lease."""
    energy_j: Annotated[float, Field(ge=0)] | None = None
    """Energy used during the lease, according to NVML; None: NVML does not report it."""
    busy: Annotated[float, Field(ge=0, le=1)] | None = None
    """NVML's utilization: share of that time in which a kernel ran; None: not reported."""


class Step(Value):
    """One completed step of an evaluation."""

    name: StepName
    seconds: Seconds
    note: str = ""
    waited_s: Seconds = 0.0
    """Part of `seconds` in which the step waited for the GPU's lease."""
    gpu: GpuUse | None = None
    """The step's use of a real GPU; None if it used none, in builds before an evaluation, and in
    old transcripts."""


class Built(Value):
    """The build succeeded."""

    kind: Literal["built"] = "built"
    resources: tuple[Resources, ...]


class BuildReport(Value):
    """Results of guard and build; no code of the candidate has run yet."""

    candidate: str
    result: Annotated[Built | Refused | BuildFailed | TimedOut, Field(discriminator="kind")]
    steps: tuple[Step, ...]


class ErrorNorm(Value):
    """Error of one argument on one case, and the baseline's (check/error_norms.py), in ulps."""

    case: Case
    argument: str
    candidate_ulps: float
    baseline_ulps: float
    limit_ulps: float


class CheckRecord(Value):
    """What the check step did and found, up to the first failure: enough to repeat it."""

    visible: tuple[Case, ...]
    """The task's own and the tester's cases that ran, with their seeds."""
    hidden: tuple[Case, ...]
    """Cases that were drawn for this check alone and ran."""
    known: KnownNumbers = Field(default_factory=KnownNumbers, exclude_if=is_empty)
    """Constants that the candidate's code compares with; some hidden cases were drawn to match
    them."""
    failed: Case | None = Field(default=None, exclude_if=lambda case: case is None)
    """The drawn case that ended the check."""
    shared: int = 0
    """Cases that are drawn once for all checks of a judge, from the first half of the evaluation's
    seed, and that ran."""
    left_out: tuple[str, ...] = ()
    """Drawn cases that the baseline itself fails, and how; they do not count against a
    candidate."""
    calls: int
    how: dict[How, int]
    """Calls of the launcher, counted by the way they were made; repeats included."""
    elements: int
    """Elements of written arguments that were compared with the oracle."""
    guard_bytes: int
    """Bytes outside the arguments and between their rows that were checked after the calls."""
    read_bytes: int
    """Bytes of read-only arguments that were compared with their initial values."""
    repeats: int
    """Calls whose results were compared bit by bit with those of an earlier call on the same
    inputs."""
    swept: int = 0
    """Further drawn cases whose results were compared with the baseline's on the device; those that
    differ are among the shared."""
    rows: int = Field(default=0, exclude_if=is_empty)
    """Rows that were compared bit by bit with the same row in another call, if the contract is
    batch-invariant; these calls are among the shared cases."""
    uncovered: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """Factors of the covering cases (check/covering_cases.py) some pairs of which (in a
    confirmation: triples) were not covered by a call, and why: "tokens x d: 18 of 60 combinations
    ..."."""
    sought: tuple[Case, ...] = Field(default=(), exclude_if=is_empty)
    """Shared cases that were drawn to launch kernels of this candidate that no other case
    launches."""
    never_launched: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """Kernels of the candidate that no call launched, so they were not judged."""
    left_as_is: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """Further mutants whose device code is identical to the baseline's; not judged either."""
    worst_error: ErrorNorm | None = None  # the one closest to its limit
    band_shares: dict[str, float] = Field(default_factory=dict, exclude_if=lambda it: not it)
    """Share of results, for each argument of at most 16 bits, whose exact value is so close to a
    midpoint that both neighbours are correct (check/bands.py)."""
    warnings: tuple[str, ...] = ()  # of the virtual GPU, each place once

    @property
    def own_draw(self) -> tuple[Case, ...]:
        """The drawn cases that are named: this check's own, and the one that ended it."""
        return self.hidden if self.failed is None else (*self.hidden, self.failed)

    @property
    def drawn(self) -> int:
        """Cases that were drawn from the valid domain."""
        return self.shared + len(self.hidden)

    @property
    def cases(self) -> int:
        return self.drawn + len(self.visible)


class CaseLaunches(Value):
    """What one case launches (tools/plan/)."""

    case: Case
    launches: str
    """One line: each launch with its kernel, grid, block and shared memory; memsets and copies."""
    plan_sha256: str
    """Hash of the launch plan."""
    baseline_plan_sha256: str = ""
    """Hash of the baseline's launch plan for the same case; empty where none was timed."""


class Evidence(Value):
    """What another judge needs to check this evaluation: hashes of the judge's and the judged
    code."""

    judge_sha256: str
    """Hash of the judge's own files (judge_version.py)."""
    cubin_sha256: str
    """Hash of the candidate's machine code."""
    baseline_cubin_sha256: str = ""
    plans: tuple[CaseLaunches, ...] = ()
    """Launches of the timed cases, or of the task's own check cases if none was timed."""
    device_facts: dict[str, int] = Field(default_factory=dict)
    """What the launcher queried about the GPU, and the answers."""
    gpu: dict[str, str] = Field(default_factory=dict)
    """What NVML reports about a real GPU: driver, CUDA version, memory, maximum clocks, power."""


class Evaluation(Value):
    """What the judge found about one candidate."""

    candidate: str
    device: Device
    outcome: Outcome
    resources: tuple[Resources, ...] = ()
    steps: tuple[Step, ...] = ()
    check: CheckRecord | None = None
    confirms: bool = False
    """Whether this evaluation confirms a winner: the timed cases on new seeds, after the
    sanitizers."""
    seed: str = ""
    """Seed of all random choices (tools/entropy.py); empty in old transcripts."""
    evidence: Evidence | None = None
    """What another judge needs to check this evaluation; None if nothing was launched, and in old
    transcripts."""
    trust: str = Field(default="", exclude_if=lambda text: not text)
    """How far the result can be relied on, of a candidate that is no launch plan; "" for plans."""
