"""The judge from end to end, on the virtual GPU and under `-m gpu` on a real one."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from astra_chat.tools.evaluation import Built, Evaluation
from astra_chat.tools.judge import Judge
from astra_chat.tools.profiling.metrics import TIME_PARTS, profile_on
from astra_chat.tools.progress import Progress
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.system.subprocesses import Cancelled
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.task.tiers import baseline_source
from astra_chat.tools.types import (
    BuildFailed,
    Case,
    Correct,
    Device,
    Profile,
    Refused,
    Timed,
    Wrong,
    candidate_id,
)
from astra_vgpu.ground.errors import MissingDependency
from tests.small_tasks import within


@pytest.fixture(scope="module")
def task() -> Task:
    """silu_and_mul with few and small cases: these tests are about the judge."""
    small = within(find_task("silu_and_mul"), tokens=128, d=14336)
    timed = small.demo[:2]
    return small.model_copy(update={"check": small.check[:4], "demo": timed, "bench": timed})


@pytest.fixture(scope="module")
def judges() -> Iterator[dict[str, Judge]]:
    """One for a kind of device: its baseline is measured once, its oracle asked once."""
    made: dict[str, Judge] = {}
    yield made
    for judge in made.values():
        judge.close()


@pytest.fixture
def judge(task: Task, device: Device, judges: dict[str, Judge]) -> Judge:
    if device.kind not in judges:
        judges[device.kind] = Judge(task, device)
    return judges[device.kind]


@pytest.fixture(scope="module")
def evaluated() -> dict[str, tuple[Evaluation, list[Progress]]]:
    return {}


@pytest.fixture
def baseline_evaluation(
    judge: Judge, device: Device, evaluated: dict[str, tuple[Evaluation, list[Progress]]]
) -> tuple[Evaluation, list[Progress]]:
    """The baseline evaluated as a candidate, once for a kind of device, with its progress."""
    if device.kind not in evaluated:
        seen: list[Progress] = []
        judge.on_progress = seen.append
        evaluated[device.kind] = judge.evaluate(judge.baseline), seen
        judge.on_progress = lambda _: None
    return evaluated[device.kind]


@pytest.mark.second_tier
def test_the_baseline_against_itself_is_a_tie(
    judge: Judge, device: Device, baseline_evaluation: tuple[Evaluation, list[Progress]]
) -> None:
    evaluation, seen = baseline_evaluation
    outcome = evaluation.outcome
    assert isinstance(outcome, Timed)
    assert outcome.verdict == "tie" and outcome.ratio == pytest.approx(1.0, abs=0.05)
    assert outcome.basis == ("measured" if device.kind == "cuda" else "estimated")
    assert outcome.profile.basis == outcome.basis and len(outcome.profile.metrics) >= 5
    assert [timed.case for timed in outcome.cases] == [case for case, _ in judge.weighted]
    assert all(0 < case.percent_of_limit < 130 for case in outcome.cases)
    assert [s.name for s in evaluation.steps] == [
        "guard",
        "build",
        "audit",
        "plan",
        "check",
        "time",
        "profile",
    ]
    assert {p.step for p in seen} >= {"build", "check", "time", "profile"}
    checked = [p for p in seen if p.step == "check" and p.text]
    assert [p.done for p in checked] == sorted(p.done for p in checked), "it goes back"
    assert evaluation.candidate == candidate_id(judge.baseline) and evaluation.resources


@pytest.mark.second_tier
def test_the_papers_start_is_slower(judge: Judge, task: Task) -> None:
    outcome = judge.evaluate(baseline_source(task, "paper")).outcome
    assert isinstance(outcome, Timed) and outcome.verdict == "slower" and outcome.ratio < 0.6


@pytest.mark.second_tier
def test_against_the_papers_start_the_baseline_is_accepted(task: Task, device: Device) -> None:
    with Judge(task, device, tier="paper") as judge:
        outcome = judge.evaluate(baseline_source(task, "sglang")).outcome
    assert isinstance(outcome, Timed) and outcome.verdict == "accepted" and outcome.ratio > 2


def test_a_forbidden_call_is_refused_before_it_is_built(judge: Judge, scalar: str) -> None:
    report = judge.build(scalar.replace("switch (dtype)", 'system("true");\n  switch (dtype)'))
    assert isinstance(report.result, Refused)
    assert "system" in report.result.findings[0].what
    assert [s.name for s in report.steps] == ["guard"]


def test_a_source_without_the_entry_is_refused(judge: Judge, scalar: str) -> None:
    outcome = judge.check(scalar.replace("cudaError_t silu_and_mul", "cudaError_t silu")).outcome
    assert isinstance(outcome, Refused) and "silu_and_mul" in outcome.findings[0].what


@pytest.mark.second_tier
def test_build_errors_come_with_their_lines(judge: Judge, scalar: str) -> None:
    report = judge.build(scalar.replace("const float gate =", "const flaot gate ="))
    assert isinstance(report.result, BuildFailed) and "flaot" in report.result.log


@pytest.mark.second_tier
def test_extra_cases_are_really_run(judge: Judge, scalar: str) -> None:
    """Right for every case of the task, wrong for the one that the tester adds: of an even number
    of vectors, which hidden cases do not have."""
    odd = "const float up = tokens == 21 && d == 64 ? 0.5f :"
    marked = scalar.replace("const float up =", odd)
    extra = Case(dims={"tokens": 21, "d": 64}, dtype="float16")
    assert isinstance(judge.check(marked).outcome, Correct)
    outcome = judge.check(marked, [extra]).outcome
    assert isinstance(outcome, Wrong) and outcome.case == extra


@pytest.mark.second_tier
def test_profile_alone(judge: Judge, scalar: str) -> None:
    profile = judge.profile(scalar)
    assert isinstance(profile, Profile) and len(profile.metrics) >= 5 and profile.why


@pytest.mark.second_tier
def test_every_timed_case_has_a_profile_whose_parts_add_up(
    judge: Judge, baseline_evaluation: tuple[Evaluation, list[Progress]]
) -> None:
    outcome = baseline_evaluation[0].outcome
    assert isinstance(outcome, Timed)
    for time in outcome.cases:
        profile = profile_on(outcome, time.case)
        assert profile is not None and profile.case == time.case
        figures = {metric.name: metric.value for metric in profile.metrics}
        parts = sum(figures[name] for name in TIME_PARTS.values())
        assert parts == pytest.approx(time.median_us)
        assert figures["time_left"] == pytest.approx(time.median_us - figures["time_reachable"])
    assert outcome.profile.case == max(judge.weighted, key=lambda one: one[1])[0]
    assert len(outcome.other_profiles) == len(outcome.cases) - 1


@pytest.mark.second_tier
def test_build_reports_resources(judge: Judge, scalar: str) -> None:
    report = judge.build(scalar)
    assert isinstance(report.result, Built)
    assert len(report.result.resources) == 3


def test_a_running_evaluation_can_be_cancelled(task: Task, device: Device) -> None:
    with Judge(task, device) as judge:
        threading.Timer(0.5, judge.cancel).start()
        with pytest.raises(Cancelled):
            judge.evaluate(judge.baseline)


@pytest.mark.second_tier
def test_a_strange_kernel_needs_isolation_or_trust(
    task: Task, scalar: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("astra_chat.tools.sandbox.isolation.isolation", lambda: "seccomp")
    with Judge(task, virtual_device("h200")) as judge:
        with pytest.raises(MissingDependency, match="--trust"):
            judge.build(scalar)
        assert isinstance(judge.build(judge.baseline).result, Built)
    with Judge(task, virtual_device("h200"), trust=True) as judge:
        assert isinstance(judge.build(scalar).result, Built)


@pytest.mark.second_tier
def test_what_hides_from_the_guard_is_refused_by_the_audit(judge: Judge, scalar: str) -> None:
    asked = '#define ASK(x) asm("mov.u32 %0, %" #x ";" : "=r"(word))'
    used = "__global__ void ask(unsigned* out) { unsigned word; ASK(smid); *out = word; }"
    source = f"{scalar}\n{asked}\n{used}\n"
    outcome = judge.check(source).outcome
    assert isinstance(outcome, Refused) and outcome.gate == "audit"
    line = source[: source.index(used)].count("\n") + 1
    (finding,) = outcome.findings
    assert finding.line == line and "reads %smid (SR_VIRTUALSMID): " in finding.what
