"""Memory as a second objective: what a call is seen to need, which candidates are better for it,
and what a contract may say."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from astra_chat.tools.judge import Judge
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.contract_text import domain_lines
from astra_chat.tools.task.folder import find_task, load_task
from astra_chat.tools.task.shipped import task_folder
from astra_chat.tools.timing.best import best_of
from astra_chat.tools.timing.verdict import judge_times
from astra_chat.tools.types import AnyTime, Case, MemoryUse, Timed
from astra_vgpu.ground.errors import BadInput
from tests.tools.timing.test_verdict import estimated, measured

TASK = find_task("linear_cross_entropy")
VARIANTS = Path(__file__).parents[2] / "sglang_kernels" / "variants" / TASK.name


def needing(time: AnyTime, own: int, baseline: int = 1000) -> AnyTime:
    use = MemoryUse(bytes=own, baseline_bytes=baseline, eager_bytes=10_000)
    return time.model_copy(update={"memory": use})


def timed(ratio: float, own: int | None) -> Timed:
    case = measured(ratio)
    cases = (case if own is None else needing(case, own),)
    fields: dict[str, Any] = {"cases": cases, "ratio": ratio, "verdict": "accepted", "why": ""}
    return Timed.model_construct(**fields)


def test_a_measured_tie_with_less_memory_is_accepted() -> None:
    even = measured(1.0, half=0.008)
    assert judge_times([even])[1] == "tie"
    verdict, why = judge_times([needing(even, 250)])[1:]
    assert verdict == "accepted" and why.endswith("at 0.25 times the baseline's memory")
    assert judge_times([needing(even, 950)])[1] == "tie", "hardly less"


def test_less_memory_is_no_excuse_for_time() -> None:
    assert judge_times([needing(measured(0.9), 10)])[1] == "slower"
    cases = [needing(measured(1.02), 10), needing(measured(0.97), 10)]
    assert judge_times(cases)[1] == "tie", "a case may be slower"
    assert judge_times([needing(estimated(1.0), 10)])[1] == "tie", "an estimate leaves it open"
    assert judge_times([needing(measured(1.3), 5000)])[1] == "accepted"


def test_of_equally_fast_candidates_the_smallest_is_the_best() -> None:
    small, large, fast = timed(1.200, 10), timed(1.203, 900), timed(1.3, 900)
    assert best_of([large, small]) == 1 and best_of([small, large, fast]) == 2
    assert best_of([timed(1.200, None), timed(1.203, None)]) == 1, "without memory speed decides"
    assert best_of([large, timed(1.203, 900)]) == 0 and best_of([]) is None
    assert small.memory_share == pytest.approx(0.01) and timed(1.2, None).memory_share is None


def test_a_contract_says_how_memory_counts_and_names_what_it_does_not_know(tmp_path: Path) -> None:
    (line,) = [line for line in domain_lines(TASK) if line.startswith("memory counts")]
    assert "eager PyTorch allocates 4*tokens*vocab + 2*tokens bytes" in line
    folder = tmp_path / TASK.name
    shutil.copytree(task_folder(TASK.name), folder)
    text = (folder / "task.toml").read_text()
    (folder / "task.toml").write_text(text.replace("4*tokens*vocab + 2*", "4*rows*vocab + 2*"))
    with pytest.raises(BadInput, match="'rows' is neither a dim nor an integer scalar"):
        load_task(folder)


@pytest.mark.second_tier
def test_the_virtual_gpu_sees_what_a_call_needs() -> None:
    """The baseline's logits of one part of the vocabulary; a variant that needs no workspace."""
    case = Case(dims={"tokens": 3, "d": 16, "vocab": 70}, dtype="bfloat16")
    with Judge(TASK, pick_device("virtual"), trust=True) as judge:
        found = judge.time((VARIANTS / "token_a_block.cu").read_text(), ((case, 1.0),))
        assert isinstance(found, list)
        assert found[0].memory == MemoryUse(
            bytes=12, baseline_bytes=12 + 4 * 3 * 70, eager_bytes=4 * 3 * 70 + 6
        )
