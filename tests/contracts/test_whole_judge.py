"""An honest variant of each contract by the whole judge: each dtype, view, index, workspace and
judgement kind in every process of a candidate."""

from __future__ import annotations

import pytest

from astra_chat.tools.descriptions import describe
from astra_chat.tools.judge import Judge
from astra_chat.tools.types import Device, Timed
from tests.contracts.planted import CONTRACTS, contract, variants

pytestmark = pytest.mark.second_tier
CONFIRMED = ("moe_align_block_size", "scatter")
"""Confirmed, too: under the sanitizers, which take a minute on a GPU; these two have all kinds of
arguments between them."""
SHIPPED = ("moe_align_block_size", "per_token_quant_fp8", "rotary_embedding", "topk_softmax")
"""Shipped tasks with arguments that no contract of tests has."""


@pytest.mark.in_full
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [*CONTRACTS, *SHIPPED])
def test_an_honest_variant_is_timed(name: str, device: Device) -> None:
    task = contract(name)
    task = task.model_copy(update={"bench": task.bench[:1]})
    source = min(variants(name).items())[1]
    with Judge(task, device, trust=True) as judge:
        evaluation = judge.evaluate(source, fresh_seeds=name in CONFIRMED)
    assert isinstance(evaluation.outcome, Timed), describe(evaluation.outcome)
    assert [timed.case.dims for timed in evaluation.outcome.cases] == [
        case.dims for case, _ in judge.weighted
    ]
