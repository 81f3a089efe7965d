"""What is told of an evaluation follows from what ran: no gate is praised that did not run."""

from __future__ import annotations

from typing import Any

import pytest

from astra_chat.tools.evaluation import (
    CaseLaunches,
    CheckRecord,
    ErrorNorm,
    Evaluation,
    Evidence,
    Step,
)
from astra_chat.tools.explain import GateStory, explain, not_ruled_out
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.task.folder import Dim, find_task
from astra_chat.tools.types import (
    Case,
    Correct,
    Device,
    EstimatedTime,
    MeasuredTime,
    Outcome,
    Profile,
    Refused,
    StepName,
    Timed,
    Wrong,
)

TASK = find_task("silu_and_mul")
CASE = Case(dims={"tokens": 3, "d": 24}, dtype="float16", seed=41)
DRAWN = Case(dims={"tokens": 7, "d": 88}, dtype="float32", values="binary", seed=6, offset=1)
VIRTUAL = virtual_device("h200")
CUDA = Device(kind="cuda", name="NVIDIA H200", arch="sm_90", spec="h200")
RIGHT = Correct(cases=2, hidden=1, worst=0.4, deterministic=True, sampled=("7x88: 3 of 9 blocks",))
ERROR = ErrorNorm(
    case=DRAWN, argument="out", candidate_ulps=0.31, baseline_ulps=0.25, limit_ulps=0.5
)

COMMON: dict[str, Any] = {
    "case": CASE,
    "weight": 3,
    "baseline_us": 4,
    "median_us": 2,
    "ratio": 2,
    "ratio_low": 2,
    "ratio_high": 2,
    "limit_us": 1,
    "percent_of_limit": 50,
}
ESTIMATE = EstimatedTime(**COMMON, limiter="dram")
MEASURED = MeasuredTime(
    **COMMON, baseline_event_us=8, event_us=6, sm_clock_mhz=1980, blocks=12, noise=0.0031
)
PROFILE = Profile(
    basis="measured",
    case=CASE,
    metrics=(),
    bottleneck="dram",
    why="",
    limit_us=1,
    percent_of_limit=50,
)


def record(**changes: Any) -> CheckRecord:
    whole = CheckRecord(
        visible=(CASE,),
        hidden=(DRAWN,),
        left_out=("1x8 special: the baseline is wrong",),
        calls=9,
        how={"fresh": 7, "same_buffers": 2},
        elements=1234,
        guard_bytes=0,
        read_bytes=5678,
        repeats=3,
        worst_error=ERROR,
    )
    return whole.model_copy(update=changes)


def evaluation(
    outcome: Outcome, *ran: StepName, device: Device = VIRTUAL, check: CheckRecord | None = None
) -> Evaluation:
    steps = tuple(Step(name=name, seconds=1.0) for name in ran)
    return Evaluation(candidate="0" * 12, device=device, outcome=outcome, steps=steps, check=check)


def story(stories: tuple[GateStory, ...], gate: StepName) -> GateStory:
    return next(s for s in stories if s.gate == gate)


def test_a_right_kernel_with_all_that_was_seen() -> None:
    gates = ("guard", "build", "audit", "plan", "check")
    found = explain(evaluation(RIGHT, *gates, check=record()), TASK)
    assert [s.state for s in found[:5]] == ["passed"] * 5
    assert story(found, "time").state == "not asked for"
    told = "\n".join(story(found, "check").saw)
    for words in (
        "9 calls on 2 cases: 1,234 elements",
        "seed 41",
        "7x88 float32 binary offset 1",
        "5,678 bytes",
        "exact bounds",
        "2 calls with other inputs at the same addresses",
        "3 repeated calls: deterministic",
        "0.31 ulp; the baseline's is 0.25, the limit 0.5",
        "drawn but not used: 1x8 special",
        "3 of 9 blocks",
    ):
        assert words in told, words


def test_what_the_sanitizer_warned_of_is_told() -> None:
    seen = record(warnings=("leak: cudaMalloc number 1, 64 bytes, was not freed on 3x24 float16",))
    found = explain(evaluation(RIGHT, "check", check=seen), TASK)
    assert f"warning: {seen.warnings[0]}" in story(found, "check").saw


def test_the_virtual_gpu_is_its_own_sanitizer() -> None:
    gates = ("guard", "build", "audit", "check")
    found = story(explain(evaluation(RIGHT, *gates, check=record()), TASK), "sanitize")
    assert found.state == "within the check" and "races" in found.saw[0]
    real = explain(evaluation(RIGHT, *gates, device=CUDA, check=record()), TASK)
    assert story(real, "sanitize").state == "not asked for"
    refused = explain(evaluation(Refused(gate="guard", findings=()), "guard"), TASK)
    assert story(refused, "sanitize").state == "not asked for"


def test_cases_with_one_label_are_told_once() -> None:
    seen = record(hidden=(DRAWN, DRAWN.model_copy(update={"seed": 9}), CASE))
    told = "\n".join(story(explain(evaluation(RIGHT, "check", check=seen), TASK), "check").saw)
    assert told.count(DRAWN.label) == 2, "the list, and the nearest error"
    drawn = f"{DRAWN.label} (2 times); {CASE.label}"
    assert f"drawn at random after the build: 3 cases, {drawn}" in told


def test_an_estimate_is_never_called_a_measurement() -> None:
    timed = Timed(
        correct=RIGHT, cases=(ESTIMATE,), ratio=1.5, verdict="accepted", why="", profile=PROFILE
    )
    found = evaluation(timed, "check", "time", check=record())
    told = " ".join(story(explain(found, TASK), "time").saw)
    assert "estimated its time" in told and "timed it" not in told
    left = " ".join(not_ruled_out(found, TASK))
    assert "nothing was measured" in left and "temperatures" not in left


def test_what_a_failed_candidate_leaves_open_is_not_told() -> None:
    assert not_ruled_out(evaluation(Refused(gate="guard", findings=()), "guard"), TASK) == ()


def test_a_refused_source_reached_no_further_gate() -> None:
    found = explain(evaluation(Refused(gate="guard", findings=()), "guard"), TASK)
    assert story(found, "guard").state == "failed"
    assert [story(found, g).state for g in ("build", "audit", "check")] == ["not reached"] * 3
    assert all(not s.saw for s in found[1:])


def test_the_gate_that_found_it_is_named() -> None:
    wrong = Wrong(
        case=CASE, argument="out", reason="value", index=(0, 0), expected=1, got=2, bad=1, total=72
    )
    gates = ("guard", "build", "audit", "plan", "check")
    found = explain(evaluation(wrong, *gates, check=record()), TASK)
    assert [s.state for s in found[:5]] == [*["passed"] * 4, "failed"]
    assert story(found, "time").state == "not reached"


def test_other_bits_are_not_called_the_same() -> None:
    unsteady = RIGHT.model_copy(update={"deterministic": False})
    found = explain(evaluation(unsteady, "check", check=record()), TASK)
    assert any("non-deterministic" in words for words in story(found, "check").saw)


def test_nothing_is_said_of_bits_where_the_check_failed() -> None:
    wrong = Wrong(
        case=CASE, argument="out", reason="value", index=(0, 0), expected=1, got=2, bad=1, total=72
    )
    found = explain(evaluation(wrong, "check", check=record()), TASK)
    assert not any("deterministic" in words for words in story(found, "check").saw)


def test_a_gpu_has_guards_streams_and_graphs() -> None:
    seen = record(guard_bytes=98_304, how={"fresh": 7, "graph": 2})
    found = explain(evaluation(RIGHT, "check", device=CUDA, check=seen), TASK)
    told = "\n".join(story(found, "check").saw)
    assert "98,304 bytes before, after" in told and "arrived late" in told
    assert "2 calls captured as a CUDA graph" in told and "exact bounds" not in told


@pytest.mark.parametrize(
    ("device", "words"),
    [(VIRTUAL, "only on real hardware"), (CUDA, "a race that did not occur")],
)
def test_what_stays_open_depends_on_the_device(device: Device, words: str) -> None:
    told = not_ruled_out(evaluation(RIGHT, "check", device=device, check=record()), TASK)
    assert any(words in sentence for sentence in told)
    assert any("reference.py" in sentence for sentence in told)
    assert any("nothing was timed" in sentence for sentence in told)


def test_the_domain_is_counted() -> None:
    dims = {"tokens": Dim(min=1, max=10), "d": Dim(min=8, max=64, multiple_of_bytes=16)}
    small = TASK.model_copy(update={"dims": dims})
    told = not_ruled_out(evaluation(RIGHT, "check", check=record()), small)
    shapes = 10 * (8 + 8 + 15)
    assert any(f"2 cases were run, but {shapes} shapes are valid" in sentence for sentence in told)


def test_sanitizers_are_asked_of_finalists_only() -> None:
    without = not_ruled_out(evaluation(RIGHT, "check", device=CUDA), TASK)
    ran = not_ruled_out(evaluation(RIGHT, "check", "sanitize", device=CUDA), TASK)
    assert any("sanitizers did not run" in sentence for sentence in without)
    assert not any("sanitizers did not run" in sentence for sentence in ran)


def test_a_second_clock_is_told_or_why_there_was_none() -> None:
    time, profile = MEASURED, PROFILE
    seen = time.model_copy(
        update={
            "profiled_us": 2.5,
            "launches": 1,
            "baseline_profiled_us": 5.0,
            "baseline_launches": 1,
        }
    )
    for cases, words in (
        ((seen,), "judged 2.00 us, 0.80 of Nsight Compute's 2.50 us"),
        ((time,), "not compared: no permission"),
    ):
        outcome = Timed(
            correct=RIGHT, cases=cases, ratio=2, verdict="accepted", why="", profile=profile
        )
        found = evaluation(outcome, "check", "time", device=CUDA)
        last = Step(name="time", seconds=1, note="not compared: no permission")
        told = story(explain(found.model_copy(update={"steps": (last,)}), TASK), "time").saw
        assert any(words in sentence for sentence in told)
        assert any("12 to 12 blocks per case" in sentence for sentence in told)
        assert any("A/A at most 0.31%" in sentence for sentence in told)
        assert f"weights in the mean: {CASE.label} 3" in told
        assert any(
            "above 1.01 and no case's interval begins below 0.98" in sentence for sentence in told
        )


def test_launches_are_shown_and_what_is_older_than_plans_has_no_such_gate() -> None:
    launches = CaseLaunches(case=CASE, launches="silu grid 8x1x1 block 256x1x1", plan_sha256="0")
    judged = evaluation(RIGHT, "guard", "plan", "check").model_copy(
        update={"evidence": Evidence(judge_sha256="0", cubin_sha256="0", plans=(launches,))}
    )
    assert f"{CASE.label}: {launches.launches}" in story(explain(judged, TASK), "plan").saw
    older = explain(evaluation(RIGHT, "guard", "check"), TASK)
    assert "plan" not in {s.gate for s in older}
