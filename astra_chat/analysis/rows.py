"""What a row of each table holds. The docstring of a field documents its column."""

from __future__ import annotations

from typing import Literal

from astra_chat.tools.types import Basis, DeviceKind, Value


class RunColumns(Value):
    """What each row says about its run."""

    run: str
    """Name of the run."""
    task: str
    task_id: str
    """Hash of the task's files: tasks with equal ids are judged by the same rules."""
    device: str
    """The driver's name for the GPU; for a virtual GPU, a name that says which GPU it estimates
    for."""
    device_kind: DeviceKind
    spec: str
    """Key of the GPU's constants, such as "h200"."""
    strategy: str
    models: str
    """Model backend, as `--models` names it."""
    live: bool
    """Whether models, or whoever reads a mailbox, answered; False for scripts and replies from
    other runs."""
    astra: str
    """Version of Astra."""
    started: str
    """UTC, ISO 8601."""


class NamedValue(Value):
    """One entry of a mapping."""

    name: str
    value: float


class CaseRow(Value):
    """Times of one case."""

    label: str
    """The case as one line."""
    case: str
    """The case as JSON, including its seed."""
    dtype: str
    """The case's type T."""
    weight: float
    """Weight of the case in the mean over the cases."""
    basis: Basis
    """measured or estimated."""
    baseline_us: float
    """Microseconds per call of the baseline, with a cold L2; the median if measured."""
    median_us: float
    """Microseconds per call of the candidate, with a cold L2; the median if measured."""
    ratio: float
    """The baseline's time divided by the candidate's: above 1 is faster."""
    ratio_low: float
    """Lower end of the ratio's interval: a 95 % interval if measured, a 90 % prediction interval if
    estimated."""
    ratio_high: float
    """Upper end of the ratio's interval: a 95 % interval if measured, a 90 % prediction interval if
    estimated."""
    limit_us: float
    """Shortest time of a call that the hardware allows, in microseconds."""
    percent_of_limit: float
    """Physical limit as a percentage of the candidate's time."""
    baseline_memory_bytes: int | None
    """Bytes of results and used workspaces per baseline call; None: the contract does not ask."""
    memory_bytes: int | None
    """Bytes of results and used workspaces per candidate call; None: the contract does not ask."""
    baseline_warm_us: float | None
    """Microseconds per call of the baseline with the data in the L2; None: not measured."""
    warm_us: float | None
    """Microseconds per call of the candidate with the data in the L2; None: not measured."""
    baseline_event_us: float | None
    """Microseconds per call of the baseline, launch overhead included; None: not measured."""
    event_us: float | None
    """Microseconds per call of the candidate, launch overhead included; None: not measured."""
    limiter: str
    """Largest term of the estimate; empty if measured."""
    launches: str
    """What the candidate launches, as one line; empty in old transcripts."""
    bottleneck: str
    """What limits the candidate on this case, according to its profile; empty: the case has no
    profile."""
    metrics: tuple[NamedValue, ...]
    """Metrics from the case's profile, named as in Nsight Compute, or after the counter; the parts
    of the time are `time_...`."""


class EvaluationRow(RunColumns):
    """One evaluation, or one candidate that guard or build turned down."""

    turn: int
    """Turn of the chat that reports the evaluation."""
    round: int
    """0 for the baseline."""
    attempt: int
    """Number of the kernel within the round, from 1; 0 for the baseline."""
    role: str
    """Who wrote the kernel; empty for the baseline."""
    candidate: str
    """First 12 hex digits of the source's sha256."""
    changed_from: str
    """The candidate that this source changes; for the first candidates, the baseline's name."""
    parent: str
    """The candidate that the plan changes."""
    source: str
    language: str
    """cuda or triton."""
    plan_title: str
    plan_change: str
    plan_why: str
    plan_metric: str
    plan_moves: str
    """Direction in which the metric should change according to the plan: up, down, stays or
    unsaid."""
    plan_risk: str
    predicted_ratio: float | None
    """Speedup over the parent, as predicted by the plan; None: there is no plan."""
    outcome: str
    """refused, build_failed, unsupported, wrong, unsafe, crashed, timed_out, implausible,
    correct or timed."""
    verdict: str
    """accepted, tie or slower for a timed candidate; otherwise the outcome."""
    reason: str
    """The judge's one-sentence summary."""
    basis: Basis | None
    """measured or estimated; None: not timed."""
    confirms: bool
    """Whether the evaluation confirms a winner with new seeds."""
    confirmed: bool
    """Whether the candidate was accepted on new seeds in this run."""
    best: bool
    """Whether the candidate is the run's winner."""
    ratio: float | None
    """Speedup over the baseline: the weighted geometric mean over the cases; None: not timed."""
    ratio_low: float | None
    """Lower end of the ratio's interval; None: not timed."""
    ratio_high: float | None
    """Upper end of the ratio's interval; None: not timed."""
    parent_ratio: float | None
    """The parent's ratio when the plan was made."""
    percent_of_limit: float | None
    """Physical limit as a percentage of the candidate's time, weighted over the cases; None:
    not timed."""
    bottleneck: str
    """What limits the candidate on the case with the largest weight; empty: not timed."""
    checked_cases: int | None
    """Cases that the candidate was checked on; None: the check did not finish."""
    hidden_cases: int | None
    """Checked cases that were drawn from the valid domain; None: the check did not finish."""
    worst_error: float | None
    """Largest error as a share of the tolerance."""
    error_ratio: float | None
    """Largest error norm divided by the baseline's."""
    deterministic: bool | None
    """Whether repeated calls gave the same bits; None: no call was repeated, or the check did
    not finish."""
    registers: int | None
    """Registers per thread in the kernel that needs the most; None: not built."""
    spill_bytes: int | None
    """Spill stores plus spill loads, in bytes, in the kernel that has the most; None: not built."""
    cases: tuple[CaseRow, ...]
    metrics: tuple[NamedValue, ...]
    """Metrics from the profile of the case with the largest weight."""
    steps: tuple[NamedValue, ...]
    """Seconds that each of the judge's steps took, including the build."""
    judge_s: float
    """Seconds that all of the judge's steps took together, including the build."""
    gpu_s: float
    """Seconds for which the evaluation held the lock of a real GPU; part of judge_s."""
    gpu_wait_s: float
    """Seconds for which the evaluation waited for the lock of a real GPU; part of judge_s."""
    prompt_tokens: int
    """Prompt tokens of the model calls since the run's previous row."""
    completion_tokens: int
    """Completion tokens of the model calls since the run's previous row."""
    usd: float | None
    """US dollars for the model calls since the run's previous row; None: a price is not known."""
    seed: str
    """Seed from which everything was drawn; empty in old transcripts."""
    judge_sha256: str
    """sha256 over the judge's files; empty in old transcripts."""
    cubin_sha256: str
    """sha256 of the candidate's machine code; empty: not recorded."""


class RoundRow(RunColumns):
    """One round: a plan and what came of it."""

    round: int
    title: str
    metric: str
    moves: str
    parent: str
    """Candidate that the plan changes; empty for the baseline."""
    predicted_ratio: float
    """Speedup over the parent, as predicted by the plan."""
    actual_ratio: float | None
    """Speedup of the round's best correct kernel over the parent; None: there is no such kernel."""
    metric_before: float | None
    """The plan's metric in the parent's profile; None: not known."""
    metric_after: float | None
    """The plan's metric in the profile of the round's best kernel; None: not known."""
    moved: str
    """How the metric changed: up, down, stays, or unsaid where it is not known."""
    kernels: int
    """Kernels written in the round."""
    failed: int
    """Kernels that did not build or are not correct."""
    accepted: bool
    """Whether a kernel of the round is faster than the baseline."""
    best_candidate: str
    """Best candidate of the search at the end of the round; empty: none."""
    best_ratio: float | None
    best_low: float | None
    best_high: float | None
    gain: float
    """Best ratio after the round divided by the best before it; 1: no gain."""
    tokens: int
    usd: float | None
    seconds: float
    """Seconds from the round's plan to the next plan, or to the end of the run."""


class TurnRow(RunColumns):
    """One turn of the chat."""

    turn: int
    t: float
    """Seconds since the run began."""
    seconds: float
    """Seconds since the previous turn."""
    round: int
    role: str
    kind: Literal[
        "request",
        "tests",
        "scores",
        "plan",
        "analysis",
        "pass",
        "approval",
        "kernel",
        "build",
        "evaluation",
    ]
    words: str
    """What was said; for the judge, its one-sentence summary."""
    candidate: str
    """The candidate that the turn is about; empty: none."""
    chosen_by: str
    """What chose the speaker: rule or model; empty for the first turn and for a human's turns."""
    prompt_tokens: int
    completion_tokens: int
    usd: float | None
