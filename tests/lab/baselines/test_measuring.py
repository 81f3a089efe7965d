"""What is measured, in which order and how long; the measuring itself needs a GPU."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from astra_chat.tools.recordings.reading import read_recorded
from astra_chat.tools.system.devices import cuda_device, wanted_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import candidate_id
from astra_vgpu.ground.errors import BadInput
from lab.baselines.beside import Beside, winner_file
from lab.baselines.evidence import Comparison, read
from lab.baselines.foreign import Places
from lab.baselines.measuring import BaselineMeasuring
from tests.recorded_files import EXAMPLES

RECORDED = EXAMPLES / "h200/baselines.json"
DEVICE = wanted_device("cuda", "h200")
TASKS = [find_task(name) for name in ("moe_sum_reduce", "moe_align_block_size")]


def places(tmp_path: Path) -> Places:
    for task in TASKS:
        (tmp_path / f"{task.name}.cu").write_text("// a Triton kernel's\n")
    return Places(triton=tmp_path)


def test_real_kernels_of_all_tasks_come_first_and_what_is_known_not_again(tmp_path: Path) -> None:
    measuring = BaselineMeasuring(tmp_path / "a.json", DEVICE, math.inf)
    besides = [Beside(task, DEVICE) for task in TASKS]
    pairs = [(beside, pair) for beside in besides for pair in beside.pairs(places(tmp_path))]
    wanted = measuring.wanted(pairs)
    stages = [pair.stage for _, pair in wanted]
    # Four of memory's layouts for the task that moves data, of which two on large cases only.
    assert stages == ["foreign"] * 4 + ["empty"] * 2 + ["streaming"] * 4
    assert [beside.task.name for beside, _ in wanted[:4]] == [
        "moe_sum_reduce",
        "moe_sum_reduce",
        "moe_align_block_size",
        "moe_align_block_size",
    ]
    for (beside, pair), failure in zip(wanted[:2], ("", "it does not run"), strict=True):
        found = Comparison(
            task=beside.task.name,
            first=pair.first.kernel,
            second=pair.second.kernel,
            cases=(),
            failure=failure,
        )
        measuring.found[found.task, found.first, found.second] = found
    assert measuring.wanted(pairs) == wanted[1:]
    for beside in besides:
        beside.__exit__()


def test_winners_meet_the_first_rival_of_every_task_before_a_second(tmp_path: Path) -> None:
    winners = tmp_path / "winners"
    winners.mkdir()
    for task in TASKS:
        winner_file(winners, task.name, "h200").write_text("// a winner")
    measuring = BaselineMeasuring(tmp_path / "a.json", DEVICE, math.inf)
    besides = [Beside(task, DEVICE) for task in TASKS]
    pairs = [
        (beside, pair)
        for beside in besides
        for pair in measuring.pairs_of(beside, places(tmp_path), winners)
    ]
    wanted = measuring.wanted(pairs)
    assert [(beside.task.name, pair.first.kernel.name) for beside, pair in wanted] == [
        ("moe_sum_reduce", "triton"),
        ("moe_align_block_size", "triton"),
        ("moe_sum_reduce", "triton-pdl"),
        ("moe_align_block_size", "triton-pdl"),
    ]
    assert {pair.second.kernel.tier for _, pair in wanted} == {"winner"}
    assert {pair.second.kernel.content for _, pair in wanted} == {candidate_id("// a winner")}
    # Where another kind of GPU has none, that is said, and nothing is compared.
    said: list[str] = []
    measuring.tell = said.append
    assert not list(measuring.pairs_of(besides[0], places(tmp_path), tmp_path))
    assert "contains no winner for an h200" in said[0]
    for beside in besides:
        beside.__exit__()


@pytest.mark.second_tier
def test_nothing_begins_that_would_end_too_late(tmp_path: Path) -> None:
    measuring = BaselineMeasuring(tmp_path / "a.json", DEVICE, time.monotonic() + 3600)
    besides = [Beside(task, DEVICE) for task in TASKS]
    left = [(beside, pair) for beside in besides for pair in beside.pairs(Places())]
    assert measuring.next_in_time(left) == 0 and measuring.next_in_time([]) is None
    measuring.longest_s = {TASKS[0].name: 7200.0}
    number = measuring.next_in_time(left)
    assert number and left[number][0] is besides[1], "a task that takes too long stops no other"
    measuring.longest_s[TASKS[1].name] = 7200.0
    assert measuring.next_in_time(left) is None
    assert measuring.run(TASKS[:1], Places()) == 5 and not measuring.out.exists()
    for beside in besides:
        beside.__exit__()


def test_a_file_is_continued_on_its_own_device_alone(tmp_path: Path) -> None:
    out = tmp_path / RECORDED.name
    out.write_bytes(read_recorded(RECORDED))
    recorded = read(RECORDED)
    continued = BaselineMeasuring(out, recorded.device, math.inf)
    assert tuple(continued.in_order()) == recorded.comparisons
    with pytest.raises(BadInput, match="another device"):
        BaselineMeasuring(out, wanted_device("cuda", "h100"), math.inf)


@pytest.mark.gpu
def test_a_file_is_continued_where_it_ended(tmp_path: Path) -> None:
    device = cuda_device(0)
    out, task = tmp_path / "a.json", find_task("topk_softmax")
    measuring = BaselineMeasuring(out, device, math.inf)
    assert measuring.run([task], Places()) == 0
    whole = read(out)
    assert [c.first.tier for c in whole.comparisons] == ["empty", "streaming", "streaming"]
    assert all(c.cases and not c.failure for c in whole.comparisons)
    again = BaselineMeasuring(out, device, math.inf)
    assert again.run([task], Places()) == 0 and not again.longest_s
