"""The tables: arms after equal numbers of evaluations, measured and estimated apart."""

from __future__ import annotations

import math
from typing import Any

import pytest

from astra_chat.campaign.campaign_file import CampaignFile
from astra_chat.campaign.index import index_of
from astra_chat.campaign.plan import RunPlan
from astra_chat.campaign.results import arms_of, markdown, run_cells
from astra_chat.campaign.rows import CampaignRow
from astra_chat.transcript.summary import Timing
from astra_chat.transcript.time_use import TimeUse
from tests.chat_samples import VECTOR, evaluation, timed


def row(strategy: str, repeat: int, search: tuple[float, ...], **changes: Any) -> CampaignRow:
    plan = RunPlan(
        id=f"{strategy}-{repeat}",
        task="t",
        strategy=strategy,
        model="m|n",
        start="sglang",
        device="virtual",
        repeat=repeat,
    )
    values: dict[str, Any] = {
        "state": "ended",
        "outcome": "rounds",
        "device": "virtual GPU",
        "basis": "estimated",
        "search": search,
        "evaluations": len(search),
        **changes,
    }
    return CampaignRow(plan=plan, **values)


def test_arms_are_compared_after_as_many_evaluations_as_the_least_run_has() -> None:
    rows = [row("best", 1, (1, 1, 1.5, 3.0)), row("tree", 1, (1, 1.2, 1.3))]
    best, tree = arms_of(rows)
    assert (best.strategy, tree.strategy) == ("best", "tree")
    assert best.evaluations == tree.evaluations == 3
    assert (best.ratio, tree.ratio) == (pytest.approx(1.5), pytest.approx(1.3))
    assert best.low is None


def test_repeats_give_a_geometric_mean_with_its_interval() -> None:
    (arm,) = arms_of([row("best", 1, (1.0, 1.1)), row("best", 2, (1.0, 1.4))])
    assert arm.runs == 2 and arm.ratio == pytest.approx(math.sqrt(1.1 * 1.4))
    half = 12.706 * abs(math.log(1.4 / 1.1)) / 2  # two values: s / sqrt(2) is half their distance
    assert arm.low == pytest.approx(arm.ratio / math.exp(half))
    assert arm.high == pytest.approx(arm.ratio * math.exp(half))
    many = arms_of([row("best", n, (1.0, 1.1 + n / 100)) for n in range(1, 12)])
    assert many[0].runs == 11 and many[0].high and many[0].high < 1.2


def test_measured_and_estimated_and_two_devices_are_never_in_one_mean() -> None:
    rows = [
        row("best", 1, (1.0, 1.1)),
        row("best", 2, (1.0, 1.9), basis="measured", device="NVIDIA H200"),
        row("best", 3, (1.0, 1.8), basis="measured", device="NVIDIA H100"),
    ]
    arms = arms_of(rows)
    assert [arm.runs for arm in arms] == [1, 1, 1]
    assert {arm.device for arm in arms} == {
        "virtual GPU, estimated",
        "NVIDIA H200, measured",
        "NVIDIA H100, measured",
    }


def test_runs_that_have_not_ended_or_timed_nothing_are_in_no_mean() -> None:
    rows = [row("best", 1, (1.0, 9.0), state="running"), row("best", 2, (), basis=None)]
    assert arms_of(rows) == []


def test_a_run_is_a_row_with_its_interval_and_results_are_markdown() -> None:
    found = evaluation(VECTOR, timed(1.9))
    best = Timing(
        candidate=found.candidate,
        ratio=1.9,
        low=1.8,
        high=2.0,
        confirmed=False,
        basis="estimated",
        cases=timed(1.9).cases,
    )
    ended = row("best", 1, (1.0, 1.9), best=best, tokens=1234, usd=None)
    cells = run_cells(ended)
    assert "1.900x, unconfirmed" in cells and "1.800 to 2.000" in cells
    assert "1,234" in cells and "unknown" in cells
    assert "none faster" in run_cells(row("best", 1, (1.0,)))
    file = CampaignFile.model_validate({"schema": 1, "tasks": ["t"], "models": ["m"]})
    text = markdown(index_of(file, [ended], 3.0))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in lines[:3]} == {14}
    assert "m\\|n" in text and "price unknown" in text and "## Variants" in text


def test_the_share_of_time_that_each_gpu_was_held() -> None:
    use = TimeUse(models_s=60.0, judge_s=40.0, device_s=30.0)
    changes = {
        "basis": "measured",
        "device": "NVIDIA H200",
        "gpu_s": 30.0,
        "time_use": use,
        "energy_j": 9000.0,
    }
    file = CampaignFile.model_validate({"schema": 1, "tasks": ["t"], "models": ["m"]})
    rows = [row("best", n, (1.0,), **changes) for n in (1, 2)]
    totals = index_of(file, [*rows, row("best", 3, (1.0,))], 80.0).totals
    assert totals.gpu_share == {"NVIDIA H200": 0.75} and totals.time_use.models_s == 120.0
    text = markdown(index_of(file, rows, 80.0))
    assert "60.0 s on a GPU (18,000 J by NVML)" in text
    assert "models 120.0 s" in text and "NVIDIA H200 reserved for 75%, utilization unknown" in text
    rows.append(row("best", 3, (1.0,), **changes, gpu_busy=0.6))
    rows.append(row("best", 4, (1.0,), **{**changes, "gpu_s": 10.0}, gpu_busy=1.0))
    assert index_of(file, rows, 80.0).totals.gpu_busy == {"NVIDIA H200": 0.7}
    assert ("reserved for 125%, busy 70% of that time according to NVML") in markdown(
        index_of(file, rows, 80.0)
    )
