"""Judging correct kernels again and again: what is counted, what continues, what is printed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from astra_chat.tools.task.folder import task_names
from lab import soak as module
from lab.attack_kernels import kernels
from lab.soak import (
    ROOT,
    Honest,
    Judgement,
    figures,
    honest_kernels,
    lines,
    read,
    recorded_winners,
    soak,
    upper_bound,
    work,
)

KERNEL = kernels("honest")["row_sum_serial.cu"]


@pytest.mark.parametrize(
    ("rejected", "judged", "bound"),
    [(0, 1000, 0.0029912), (0, 1, 0.95), (1, 10, 0.3941633), (5, 5, 1.0), (3, 1000, 0.0077354)],
)
def test_the_bound_is_clopper_and_pearsons(rejected: int, judged: int, bound: float) -> None:
    """Values of scipy.stats.beta.ppf(0.95, rejected + 1, judged - rejected)."""
    assert upper_bound(rejected, judged) == pytest.approx(bound, abs=2e-6)


@pytest.mark.second_tier
def test_kernels_of_every_task_are_judged() -> None:
    kernels = honest_kernels()
    assert len({kernel.name for kernel in kernels}) == len(kernels) > 100
    assert set(task_names()) < {kernel.task for kernel in kernels}
    assert not [k.name for k in kernels if k.name == "silu_and_mul no_tail.cu"], "it is wrong"
    assert all(kernel.load().name == kernel.task for kernel in kernels)


def test_recorded_winners_are_honest_kernels() -> None:
    archive = ROOT / "transcripts" / "recorded.tar.xz"
    winners = recorded_winners([archive / "live" / "*" / "silu_and_mul-*"])
    assert len(winners) > 2 and {kernel.task for kernel in winners} == {"silu_and_mul"}
    assert all("__global__" in kernel.source for kernel in winners)


def test_those_judged_least_come_first() -> None:
    kernels = [Honest(task, f"{task}{n}", "") for task in "ab" for n in range(3)]
    before = Counter({"a0": 2, "a1": 1, "a2": 1, "b0": 1, "b1": 1, "b2": 1})
    names = [[kernel.name for kernel in some] for some in work(kernels, before, 7 + 6)]
    assert names == [["a1", "a2"], ["b0", "b1", "b2"], ["a0"]]
    assert not list(work(kernels, before, 7))


@pytest.mark.in_full
@pytest.mark.second_tier
def test_a_soak_continues_and_tells_what_was_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = KERNEL.replace("{", "{ if (blockIdx.x == 1) return;", 1)
    assert wrong != KERNEL
    kernels = [Honest("row_sum", "right", KERNEL), Honest("row_sum", "wrong", wrong)]
    path = tmp_path / "soak" / "judgements.jsonl"
    made = soak(kernels, path, 2, 1)
    assert [(one.kernel, one.rejected) for one in made] == [("right", False), ("wrong", True)]
    assert f"--seed {made[1].seed}" in made[1].words and "--case" in made[1].words
    path.write_text(path.read_text() + '{"kernel": "cut o')
    monkeypatch.setattr(module, "judged", pytest.fail)
    assert soak(kernels, path, 2, 1) == made == read(path)


def test_what_is_printed() -> None:
    made = [Judgement("a", "t", "1", "correct")] * 300
    made += [Judgement("b", "t", "2", "wrong", "why"), Judgement("c", "t", "3", "unsupported")]
    head, rejection = lines(made)
    assert head.startswith("1 of 301 judgements of 2 honest kernels are false rejections: 0.33%")
    assert rejection == "b, seed 2: why"
    counted = figures(made)
    assert counted["judgements"] == 301 and counted["unsupported"] == ["c"]
    assert counted["upper_95"] == upper_bound(1, 301)
