"""Seconds by step and tokens by role."""

from __future__ import annotations

from astra_chat.report.part_plots import seconds_by_step, tokens_by_role
from astra_chat.transcript.spending import RoleSpent, Spent, StepSpent, Tokens

NOTHING = Spent(tokens=Tokens(), roles=(), evaluations=0, steps=(), gpu_s=0, rejected=())


def test_steps_on_the_gpu_and_elsewhere() -> None:
    steps = (StepSpent(step="build", seconds=1.25), StepSpent(step="time", seconds=3.0))
    spent = NOTHING.model_copy(update={"steps": steps, "gpu_s": 3.0})
    drawing = seconds_by_step("r", spent)
    assert drawing is not None and "build: 1.2 s" in drawing.svg and "time: 3.0 s" in drawing.svg
    assert ">on the GPU</text>" in drawing.svg and ">on the CPU</text>" in drawing.svg
    without = seconds_by_step("r", spent.model_copy(update={"gpu_s": 0.0}))
    assert without is not None and ">on the GPU</text>" not in without.svg


def test_tokens() -> None:
    role = RoleSpent(
        role="coder",
        answers=1,
        tokens=Tokens(prompt=100, cached=30, completion=50, reasoning=20),
    )
    drawing = tokens_by_role("r", NOTHING.model_copy(update={"roles": (role,)}))
    assert drawing is not None
    for words in (
        "30 tokens in, cached",
        "70 tokens in",
        "20 tokens out, reasoning",
        "30 tokens out",
    ):
        assert f"coder: {words}</title>" in drawing.svg


def test_nothing_spent() -> None:
    assert seconds_by_step("r", NOTHING) is None and tokens_by_role("r", NOTHING) is None
