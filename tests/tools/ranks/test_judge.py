"""Kernels over several GPUs, judged: plans, the check on all ranks, estimates, planted faults."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from astra_chat.tools.descriptions import describe
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.ranks.checks import failure_of, unlike
from astra_chat.tools.ranks.group import Ended
from astra_chat.tools.ranks.groups import RankNumbers, numbers_of
from astra_chat.tools.ranks.judge import RanksJudge, judge_of
from astra_chat.tools.ranks.requests import rank_requests
from astra_chat.tools.ranks.times import against, slowest
from astra_chat.tools.run.rank_messages import RankFailed
from astra_chat.tools.system.devices import cuda_device, gpu_handles, virtual_device
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.tuning.tuning_judge import TuningJudge
from astra_chat.tools.types import Case, Correct, Crashed, Refused, Timed, TimedOut
from astra_vgpu.ground.errors import BadInput, MissingDependency
from lab.ranks.faults import FAULTS, RANK_FAULTS, tried
from lab.ranks.measuring import built, plans_of
from lab.ranks.messages import LabRequest

NAME = "allreduce_add_rmsnorm"
KERNELS = ("baseline.cu", "script/pull.cu", "script/by_size.cu")
SOME_FAULTS = (
    "barrier: none after",
    "reuse: one slot",
    "wrong rank: the rank's own row",
    "rank 0 signals no peer",
    "rank: killed",
)


def quick_task(name: str = NAME) -> Task:
    """The task with few and short cases of two ranks."""
    task = find_task(name)

    def fits(case: Case) -> bool:
        return case.dims["ranks"] == 2 and case.dims["tokens"] <= 1

    return task.model_copy(
        update={
            "check": tuple(case for case in task.check if fits(case)),
            "demo": tuple(pair for pair in task.demo if fits(pair[0])),
        }
    )


def judge_for(task: Task) -> RanksJudge:
    judge = RanksJudge(task, virtual_device("h200"), trust=True, entropy=Entropy("52"))
    judge.ranks.numbers, judge.ranks.calls = RankNumbers((2,), 2), 6
    return judge


def text_of(kernel: str) -> str:
    return (find_task(NAME).folder / kernel).read_text()


def test_the_judge_follows_the_task() -> None:
    device = virtual_device("h200")
    with judge_of(find_task(NAME), device, trust=True) as ranks:
        assert isinstance(ranks, RanksJudge)
        assert {case.dims["ranks"] for case, _ in ranks.weighted} == {2}
        with pytest.raises(BadInput, match="for several GPUs, but constants"):
            ranks.tune("", 4, 2)
    with judge_of(find_task("rmsnorm"), device, trust=True) as one:
        assert type(one) is TuningJudge


@pytest.mark.parametrize("kernel", KERNELS)
def test_each_rank_has_launch_plans(kernel: str) -> None:
    with judge_for(find_task(NAME)) as judge:
        cases = [case for case, _ in judge.weighted][:2]
        plans = plans_of(judge, built(judge, text_of(kernel)), cases).plans
    assert len(plans) == 2
    grids = [[plan.kernels[0].grid for plan in by_case] for by_case in plans]
    assert grids == [[(case.dims["tokens"], 1, 1) for case in cases]] * 2
    assert len({by_case[0].kernels[0].parameters for by_case in plans}) == 2  # the rank's number


def test_what_a_guard_or_a_signal_rule_refuses() -> None:
    with judge_for(find_task(NAME)) as judge:
        text = text_of("script/pull.cu")
        allocates = text.replace("  const int threads", "  cudaMalloc(0, 8);\n  const int threads")
        unordered = text.replace("st.release.sys", "st.relaxed.sys")
        for source, gate in ((allocates, "guard"), (unordered, "audit")):
            found = judge.check(source).outcome
            assert isinstance(found, Refused)
            assert found.gate == gate


def test_planted_faults_fit_the_kernels() -> None:
    with judge_for(find_task(NAME)) as judge:
        texts = [fault.source(judge) for fault in FAULTS]
    assert len({*texts, *map(text_of, KERNELS)}) == len(FAULTS) + len(KERNELS)
    assert len(FAULTS) + len(RANK_FAULTS) >= 15


def test_too_few_gpus_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    real = virtual_device("h200").model_copy(update={"kind": "cuda"})
    with pytest.raises(MissingDependency, match="needs at least 2 GPUs, but the driver shows 0"):
        numbers_of(find_task(NAME), real)
    words = [sys.executable, "-m", "lab.ranks", "soak", str(find_task(NAME).folder / KERNELS[1])]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 3
    assert len(ran.stderr.splitlines()) == 1
    assert not ran.stdout


def test_ranks_that_hold_different_bits() -> None:
    assert unlike([[1, 2, 3], [1, 2, 3]]) is None
    assert unlike([[1, 2, 3], [1, 5, 3]]) == 1


def test_a_sample_takes_as_long_as_its_slowest_rank() -> None:
    one = {"candidate": (4.0, 6.0) * 3, "baseline": (20.0, 10.0) * 3, "nccl": (10.0, 10.0) * 3}
    other = {"candidate": (6.0, 4.0) * 3, "baseline": (10.0, 20.0) * 3, "nccl": (3.0, 3.0) * 3}
    assert slowest("candidate", [one, other]).tolist() == [6.0] * 3
    assert against("baseline", [one, other]).ratio == pytest.approx(20 / 6)
    assert against("nccl", [one, other]).us == 10.0


@pytest.mark.second_tier
def test_an_estimate_names_the_taxes() -> None:
    with judge_for(quick_task()) as judge:
        found = judge.evaluate(text_of("script/pull.cu"))
    assert isinstance(found.outcome, Timed)
    profile = found.outcome.profile
    waits, links = profile.metric("rank_waits"), profile.metric("link_bytes")
    assert waits is not None and waits.value == 1
    assert links is not None and links.value >= 4096 * 2
    assert found.outcome.ratio > 1


@pytest.mark.second_tier
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_are_correct_on_virtual_ranks(kernel: str) -> None:
    with judge_for(quick_task()) as judge:
        found = judge.check(text_of(kernel)).outcome
    assert isinstance(found, Correct), found


@pytest.mark.second_tier
@pytest.mark.parametrize("fault", SOME_FAULTS)
def test_planted_faults_are_found_on_virtual_ranks(fault: str) -> None:
    with judge_for(quick_task()) as judge:
        (found,) = tried(judge, fault)
    assert found.found, found.said


def test_a_wait_that_never_ends_is_no_matter_of_time() -> None:
    failed = RankFailed(kind="timed_out", message="every rank waits")
    ended = Ended("timed_out", 1, f"rank 1: {failed.message}", failed=failed)
    found = failure_of(ended, quick_task().check[0])
    assert describe(found) == "stopped: the step 'check' would never end: rank 1: every rank waits"


def test_each_rank_is_asked_with_its_own_number_and_plans() -> None:
    with judge_for(find_task(NAME)) as judge:
        cases = [case for case, _ in judge.weighted][:2]
        plans = plans_of(judge, built(judge, text_of("baseline.cu")), cases)
        seed, device = judge.entropy.cases, judge.device
        sides = {"candidate": plans, "baseline": plans}
        asked = rank_requests(
            LabRequest, judge.task, device, 2, cases, sides, seed, soak=7, meeting=Path("m")
        )
    assert [one.rank for one in asked] == [0, 1]
    for one in asked:
        assert (one.soak, one.ranks, one.device, one.seed) == (7, 2, "virtual", seed.text)
        assert [case.scalars["rank"] for case in one.cases] == [one.rank] * 2
        assert [side.name for side in one.sides] == ["candidate", "baseline"]
        assert all(side.plans == plans.plans[one.rank] for side in one.sides)


@pytest.fixture
def two_gpus() -> Iterator[RanksJudge]:
    """The judge of real GPUs, where there are as many as the smallest group has."""
    if len(gpu_handles()) < 2:
        pytest.skip("fewer than two GPUs")
    with RanksJudge(find_task(NAME), cuda_device(0), trust=True) as judge:
        yield judge


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("fault", "outcome"), [("rank: killed", Crashed), ("rank 0 signals no peer", TimedOut)]
)
def test_planted_faults_are_found_on_two_gpus(
    two_gpus: RanksJudge, fault: str, outcome: type[object]
) -> None:
    two_gpus.ranks.calls = 200
    (found,) = tried(two_gpus, fault)
    assert found.found, found.said


@pytest.mark.gpu
def test_a_kernel_on_two_gpus(two_gpus: RanksJudge) -> None:
    found = two_gpus.evaluate(text_of("script/by_size.cu")).outcome
    assert isinstance(found, Timed), found
    assert found.basis == "measured"
