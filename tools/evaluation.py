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
    """A step's use of a real GPU. What NVML says is of the whole GPU, others' share included."""

    held_s: Seconds
    """Time in which the step held the GPU's lease."""
    energy_j: Annotated[float, Field(ge=0)] | None = None
    """Energy used in the time of the lease, by NVML; None: it does not say."""
    busy: Annotated[float, Field(ge=0, le=1)] | None = None
    """NVML's utilization: share of that time in which a kernel ran; None: it does not say."""


class Step(Value):
    """One step of an evaluation, as it went."""

    name: StepName
    seconds: Seconds
    note: str = ""
    waited_s: Seconds = 0.0
    """Part of `seconds` in which the step waited for the GPU's lease."""
    gpu: GpuUse | None = None
    """The step's use of a real GPU; None without one, in builds before an evaluation, and in old
    transcripts."""


class Built(Value):
    """The build succeeded."""

    kind: Literal["built"] = "built"
    resources: tuple[Resources, ...]


class BuildReport(Value):
    """Results of guard and build; nothing of the candidate has been executed yet."""

    candidate: str
    result: Annotated[Built | Refused | BuildFailed | TimedOut, Field(discriminator="kind")]
    steps: tuple[Step, ...]


class ErrorNorm(Value):
    """Error of one argument on one case beside the baseline's (check/error_norms.py), in ulps."""

    case: Case
    argument: str
    candidate_ulps: float
    baseline_ulps: float
    limit_ulps: float


class CheckRecord(Value):
    """What the check step did and saw, up to the first failure: enough to do it again."""

    visible: tuple[Case, ...]
    """The task's own cases and the tester's that ran, with their seeds."""
    hidden: tuple[Case, ...]
    """Cases that ran and were drawn for this check alone."""
    known: KnownNumbers = Field(default_factory=KnownNumbers, exclude_if=is_empty)
    """What the candidate's code compares with; some of the hidden cases were drawn for it."""
    failed: Case | None = Field(default=None, exclude_if=lambda case: case is None)
    """The drawn case that ended the check."""
    shared: int = 0
    """Further cases that ran: drawn once for all checks of a judge, from the first half of the
    evaluation's seed."""
    left_out: tuple[str, ...] = ()
    """Drawn cases that the baseline itself fails, and how: not held against a candidate."""
    calls: int
    how: dict[How, int]
    """Calls of the launcher by how they were made, repeats included."""
    elements: int
    """Elements of written arguments that were compared with the oracle, one by one."""
    guard_bytes: int
    """Bytes outside the arguments and between their rows, looked at after the calls."""
    read_bytes: int
    """Bytes of arguments that may only be read, compared with what they were."""
    repeats: int
    """Calls whose bits were compared with those of an earlier call on the same inputs."""
    swept: int = 0
    """Further drawn cases whose results were compared with the baseline's on the device; those that
    differ are among the shared."""
    rows: int = Field(default=0, exclude_if=is_empty)
    """Rows whose bits were compared with those of the same row in another call, where the contract
    is batch-invariant; these calls are among the shared."""
    uncovered: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """Factors of the covering cases (check/covering_cases.py) of which some pairs, or in a
    confirmation triples, were not called, and why: "tokens x d: 18 of 60 combinations ..."."""
    sought: tuple[Case, ...] = Field(default=(), exclude_if=is_empty)
    """Cases among the shared ones that were drawn for kernels of this candidate that no other case
    launches."""
    never_launched: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """Kernels of the candidate that no call launched: nothing was judged of them."""
    left_as_is: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """Further ones whose device code is the baseline's, to the byte: not judged either."""
    worst_error: ErrorNorm | None = None  # the one closest to its limit
    band_shares: dict[str, float] = Field(default_factory=dict, exclude_if=lambda it: not it)
    """Share of results, by argument of 16 bits or less, whose exact value lies so near a midpoint
    that either neighbour is right (check/bands.py)."""
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
    """What another judge needs to check this evaluation: which code judged which code, by hash."""

    judge_sha256: str
    """Hash of the judge's own files (judge_version.py)."""
    cubin_sha256: str
    """Hash of the candidate's machine code."""
    baseline_cubin_sha256: str = ""
    plans: tuple[CaseLaunches, ...] = ()
    """Launches of the timed cases; of the task's own check cases where none was timed."""
    device_facts: dict[str, int] = Field(default_factory=dict)
    """What the launcher asked about the GPU, and the answers that it got."""
    gpu: dict[str, str] = Field(default_factory=dict)
    """What NVML says about a real GPU: driver, CUDA version, memory, largest clocks, power."""


class Evaluation(Value):
    """What the judge found about one candidate."""

    candidate: str
    device: Device
    outcome: Outcome
    resources: tuple[Resources, ...] = ()
    steps: tuple[Step, ...] = ()
    check: CheckRecord | None = None
    confirms: bool = False
    """Whether the candidate was judged once more to confirm a winner: the timed cases on fresh
    seeds, after the sanitizers."""
    seed: str = ""
    """Seed from which all that was drawn derives (tools/entropy.py); empty in old transcripts."""
    evidence: Evidence | None = None
    """What another judge needs to check this evaluation; None where nothing was launched, and in
    old transcripts."""
