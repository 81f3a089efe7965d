"""Kernels over several GPUs, judged: their plans, the check on all ranks, and planted faults."""

from __future__ import annotations

import subprocess
import sys

import pytest

from astra_chat.tools.entropy import Seed
from astra_chat.tools.system.devices import wanted_device
from astra_vgpu.ground.errors import BadInput, MissingDependency
from lab.ranks.__main__ import TASK
from astra_chat.tools.task.ranks import load_ranks
from lab.ranks.faults import FAULTS, tried, undetected
from astra_chat.tools.ranks.judge import Asked, RanksEvaluation, devices, evaluate, slowest_time, unlike
from astra_chat.tools.ranks.plans import Planned, planned

KERNELS = ("baseline", "pull", "push")
SEED = Seed("5")
SOME_FAULTS = ("no barrier after", "one place", "rounds another way", "killed")


def text_of(kernel: str) -> str:
    return (TASK / f"{kernel}.cu").read_text()


def asked(device: str, calls: int, rounds: int = 0) -> Asked:
    chosen, ranks = devices(load_ranks(TASK), "cuda" if device == "cuda" else "virtual", 2)
    return Asked(ranks, chosen, SEED, calls, rounds)


def judged(kernel: str, how: Asked) -> RanksEvaluation:
    return evaluate(load_ranks(TASK), text_of(kernel), how, print)


@pytest.mark.parametrize("kernel", KERNELS)
def test_each_rank_has_launch_plans(kernel: str) -> None:
    task = load_ranks(TASK)
    cases = task.cases("bench", 4)[:2]
    found = planned(task, text_of(kernel), cases, 4, wanted_device("cuda"), SEED)
    assert isinstance(found, Planned)
    assert len(found.plans) == 4
    grids = [[plan.kernels[0].grid for plan in plans] for plans in found.plans]
    assert grids == [[(case.dims["tokens"], 1, 1) for case in cases]] * 4
    parameters = {plans[0].kernels[0].parameters for plans in found.plans}
    assert len(parameters) == 4  # the rank's number
    pointed = {r.to.name for r in found.plans[0][0].kernels[0].relocations}
    assert pointed == {"inputs", "state", "residual", "weight", "out"}


def test_a_launcher_that_allocates_is_refused() -> None:
    text = text_of("push").replace(
        "  const int threads", "  cudaMalloc(0, 8);\n  const int threads"
    )
    found = evaluate(load_ranks(TASK), text, asked("virtual", 4), print)
    assert found.outcome == "refused"
    assert "must not allocate memory" in found.message


def test_planted_faults_fit_the_kernels() -> None:
    task = load_ranks(TASK)
    texts = [fault.source(task) for fault in FAULTS]
    assert len({*texts, *map(text_of, KERNELS)}) == len(FAULTS) + len(KERNELS)


def test_too_few_gpus_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    task = load_ranks(TASK)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(MissingDependency, match="needs at least 2 GPUs: the driver shows 0"):
        devices(task, "cuda", None)
    with pytest.raises(BadInput, match="2 or 4 ranks, not 8"):
        devices(task, "virtual", 8)
    words = [sys.executable, "-m", "lab.ranks", "evaluate", str(TASK / "push.cu")]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 3
    assert len(ran.stderr.splitlines()) == 1
    assert not ran.stdout


def test_ranks_that_hold_different_bits() -> None:
    assert unlike([[1, 2, 3], [1, 2, 3]]) is None
    assert unlike([[1, 2, 3], [1, 5, 3]]) == 1


def test_a_sample_takes_as_long_as_its_slowest_rank() -> None:
    case = load_ranks(TASK).cases("bench", 2)[0]
    one = {"candidate": (4.0, 6.0) * 3, "baseline": (20.0, 10.0) * 3, "nccl": (10.0, 10.0) * 3}
    other = {"candidate": (6.0, 4.0) * 3, "baseline": (10.0, 20.0) * 3, "nccl": (3.0, 3.0) * 3}
    found = slowest_time(case, 2.0, [one, other])
    assert found.rival is not None
    assert (found.us, found.baseline.us, found.rival.us) == (6.0, 20.0, 10.0)
    assert found.baseline.ratio == pytest.approx(20 / 6)
    assert found.rival.low == pytest.approx(10 / 6)


@pytest.mark.second_tier
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_are_correct_on_virtual_ranks(kernel: str) -> None:
    found = judged(kernel, asked("virtual", 8))
    assert found.outcome == "correct", found.message


@pytest.mark.second_tier
@pytest.mark.parametrize("fault", SOME_FAULTS)
def test_planted_faults_are_found_on_virtual_ranks(fault: str) -> None:
    """A stop falls where the processors' load lets it: a run may miss the only moment that shows
    a fault, four in a row hardly."""
    how = asked("virtual", 60 if fault == "one place" else 24)
    for _ in range(4):
        found = [*tried(load_ranks(TASK), how, fault, print)]
        assert len(found) == 1
        if not undetected(found):
            break
    assert not undetected(found), found[0][1].message


@pytest.mark.gpu
def test_kernels_on_two_gpus() -> None:
    try:
        how = asked("cuda", 200, rounds=5)
    except MissingDependency as lack:
        pytest.skip(str(lack))
    found = judged("push", how)
    assert found.outcome == "timed", found.message
    assert all(time.rival is not None and time.us > 0 for time in found.times)


@pytest.mark.gpu
@pytest.mark.parametrize("fault", ["no barrier after", "signals nobody", "killed"])
def test_planted_faults_are_found_on_two_gpus(fault: str) -> None:
    try:
        how = asked("cuda", 200)
    except MissingDependency as lack:
        pytest.skip(str(lack))
    assert not undetected([*tried(load_ranks(TASK), how, fault, print)])
