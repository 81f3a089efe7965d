"""The cards of recorded runs: what led to a confirmed winner, and what did not."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.memory.cards import cards_of, task_class
from astra_chat.tools.task.folder import find_task
from astra_vgpu.ground.errors import BadInput
from tests.chat_samples import write_transcript

ROOT = Path(__file__).parents[3]
MEASURED = ROOT / "transcripts" / "examples" / "silu_and_mul-h200.jsonl.xz"


def test_each_plan_on_the_way_to_the_winner_is_a_card() -> None:
    """Cards of the recorded run on an H200: three plans over their parents, one confirmed."""
    cards = cards_of(MEASURED)
    assert [card.outcome for card in cards] == ["kept"] * 3
    assert {(card.confirmed, card.basis, card.gpu) for card in cards} == {
        (cards[0].confirmed, "measured", "NVIDIA H200")
    }
    product = 1.0
    for card in cards:
        assert card.found and card.low and card.high and card.low <= card.found <= card.high
        product *= card.found
    assert product == pytest.approx(cards[0].confirmed, rel=0.02), "the steps make the whole"
    assert cards[0].task_class == "elementwise" and cards[0].runs == ("20261121-084327-060d25",)


def test_what_failed_says_under_which_conditions() -> None:
    cards = cards_of(ROOT / "sglang_kernels" / "fused_add_rmsnorm" / "transcript.jsonl.xz")
    (failed,) = [card for card in cards if card.outcome == "failed"]
    assert "cluster" in failed.why and failed.found is None and failed.bottleneck == "latency"
    assert failed.gpu.startswith("virtual GPU") and failed.basis == "estimated"
    assert "failed: " in failed.text and "not timed" in failed.text


def test_without_a_confirmed_winner_there_is_no_card(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no confirmed winner"):
        cards_of(write_transcript(tmp_path / "transcript.jsonl"))


@pytest.mark.parametrize(
    ("name", "kind"), [("silu_and_mul", "elementwise"), ("moe_align_block_size", "indexed")]
)
def test_classes_of_tasks(name: str, kind: str) -> None:
    assert task_class(find_task(name)) == kind
