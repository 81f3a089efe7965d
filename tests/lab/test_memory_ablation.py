"""The arithmetic of the memory's ablation, on courses by hand; its runs cost too much here."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.memory.file import read_memory
from astra_vgpu.ground.errors import BadInput
from lab.memory_ablation import (
    Course,
    ablate,
    conclusion,
    differences,
    evaluations_to,
    interval,
    memory_without,
)
from tests.astra_chat.memory.test_file import CARD

WITH = Course("a", 0, True, (1.0, 1.9, 2.0), 2.0)
WITHOUT = Course("a", 0, False, (1.0, 1.0, 1.5, 1.5), 1.5)


def test_evaluations_count_up_to_95_percent_of_the_known_best() -> None:
    assert [evaluations_to(WITH, best) for best in (1.9, 2.0, 4.0)] == [2, 3, 4]
    assert evaluations_to(WITHOUT, 2.0) == 5, "never reached: one more than there were"


def test_pairs_are_compared_with_the_best_known_of_all() -> None:
    ((saved, gained),) = differences([WITH, WITHOUT], {"a": 1.2})["a"]
    assert 2**saved == pytest.approx(5 / 3) and 2**gained == pytest.approx(2.0 / 1.5)
    assert differences([WITH], {"a": 1.2}) == {}


def test_an_interval_that_holds_zero_tells_too_little() -> None:
    mean, low, high = interval({"a": [0.5, 0.6], "b": [0.4, 0.5]})
    assert low < mean < high and mean == pytest.approx(0.5) and 0.39 < low and high < 0.61
    assert conclusion("x", {"a": [0.5], "b": [0.4]}).endswith("2 pairs of 2 tasks: helps")
    assert conclusion("x", {"a": [-0.5], "b": [0.4]}).endswith("too few to tell")
    assert conclusion("x", {"a": [-0.5], "b": [-0.4]}).endswith("harms")


def test_a_task_gets_no_card_of_its_own(tmp_path: Path) -> None:
    cards = {"a": [CARD], "b": [CARD.model_copy(update={"task": "b", "technique": "b's"})]}
    file = memory_without("a", cards, tmp_path / "memory.toml")
    assert [card.task for card in read_memory(file)] == ["b"]
    example = Path(__file__).parents[2] / "transcripts" / "examples" / "silu_and_mul-h200.jsonl.xz"
    with pytest.raises(BadInput, match="1 tasks have a confirmed run among these: 6 are"):
        ablate("scripted", [example], tmp_path / "out")
