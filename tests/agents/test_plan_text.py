"""A plan as the coder and the profiler see it."""

from __future__ import annotations

from astra_chat.agents.prompt import plan_in_short, plan_text
from tests.chat_samples import SCALAR, plan

PLAN = plan().model_copy(update={"case": "4x64 float32", "moves": "down", "predicted_ratio": 1.2})


def test_the_line_of_the_anchor_is_looked_up() -> None:
    line = next(i for i, text in enumerate(SCALAR.splitlines(), 1) if PLAN.anchor in text)
    assert f"({'line ' + str(line)})" in plan_text(PLAN, SCALAR, "estimated")
    assert "(not found in the source to change)" in plan_text(PLAN, "", "estimated")


def test_the_metric_is_told_with_case_and_direction() -> None:
    metric = f"{PLAN.metric} on 4x64 float32, down"
    assert f"Metric expected to change: {metric}" in plan_text(PLAN, SCALAR, "estimated")
    assert plan_in_short(PLAN).endswith(f"Predicted: 1.20x over its parent; {metric}")


def test_a_gain_inside_the_resolution_is_told_of_estimates_alone() -> None:
    small = PLAN.model_copy(update={"predicted_ratio": 1.02})
    told = "Its predicted 1.02x is within the resolution of estimates (4%)"
    assert told in plan_text(small, SCALAR, "estimated")
    assert told not in plan_text(small, SCALAR, "measured")
    assert "resolution" not in plan_text(PLAN, SCALAR, "estimated")
