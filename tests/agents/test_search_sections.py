"""What prompts ask of a search: other algorithms by their prices, kernels that differ."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from astra_chat.agents.fact_check import contradiction
from astra_chat.agents.limits import Limits
from astra_chat.agents.prompt import ChatContext, turn_prompt
from astra_chat.agents.roles import instructions
from astra_chat.agents.run_state import state_of
from astra_chat.agents.strategy import parse_strategy
from astra_chat.agents.turns import Kernel, RoleName, Turn
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.types import candidate_id
from astra_chat.tools.virtual_gpu.adapter import second_launch_us
from astra_vgpu.ground.gpu_specs import spec
from tests.chat_samples import (
    VECTOR,
    analysis,
    baseline_turns,
    coded,
    evaluation,
    on_case,
    plan,
    run_request,
    timed,
)

ASKED = "## Is there another algorithm?"
H200 = spec("h200")
OTHER = VECTOR + "// another"


@pytest.fixture
def context(task: Task) -> ChatContext:
    return ChatContext(task=task, baseline=task.baseline, tier="sglang", device="virtual GPU")


def a_round(source: str, ratio: float) -> list[Turn]:
    return [
        Turn("planner", plan()),
        *coded(source),
        Turn("executor", evaluation(source, timed(ratio))),
        Turn("profiler", analysis()),
    ]


def prompt_of(
    role: RoleName, context: ChatContext, turns: list[Turn], limits: Limits | None = None
) -> str:
    return turn_prompt(role, context, state_of(turns, limits))


def test_another_algorithm_is_asked_for_at_first_and_when_small_changes_are_used_up(
    context: ChatContext,
) -> None:
    turns = baseline_turns()
    assert ASKED in prompt_of("planner", context, turns)
    for source, ratio, asked in (
        (VECTOR, 1.5, False),
        (VECTOR + "// 2", 1.52, False),
        (VECTOR + "// 3", 1.51, True),
        (VECTOR + "// 4", 1.9, False),
    ):
        turns += a_round(source, ratio)
        assert (ASKED in prompt_of("planner", context, turns)) is asked, ratio
        told = "None of the last 2 rounds gained more" in prompt_of("planner", context, turns)
        assert told is asked
    assert "A new algorithm counts as one idea" in instructions("planner")


def test_the_planner_has_prices_with_their_arithmetic(context: ChatContext) -> None:
    text = prompt_of("planner", context, baseline_turns())
    assert f"- launch: {second_launch_us(H200):.1f} us for each launch after the first" in text
    (round_us,) = re.findall(r"a round of loads from DRAM takes ([\d.]+) us", _told_metrics())
    assert f"{round_us} us from DRAM" in text, "one price in both texts"
    moved_us = 4 * 64 * 4 * 2 / H200.dram_bytes_per_s * 1e6
    assert f"at least 0.00205 MB / 4.8 TB per second = {moved_us:.3g} us" in text
    assert f"256 operations = {256 / H200.fp32_flops * 1e6:.3g} us" in text
    assert "tensor cores" not in text.partition("## Prices")[2].partition("##")[0], "no 16 bits"
    assert "Costs to consider" not in prompt_of("coder", context, baseline_turns())


def _told_metrics() -> str:
    return " ".join(instructions("planner").split())


def beam(*sources: str) -> list[Turn]:
    request = run_request().model_copy(update={"strategy": parse_strategy("beam:1x3")})
    kernels = [Turn("coder", Kernel(words="Four at a time.", source=one)) for one in sources]
    return [Turn("user", request), *baseline_turns()[1:], Turn("planner", plan()), *kernels]


def test_coders_of_one_plan_see_each_others_kernels_and_are_asked_to_differ(
    context: ChatContext,
) -> None:
    first = prompt_of("coder", context, beam())
    assert "This plan gets 3 kernels, and each is judged separately; yours is number 1." in first
    second = prompt_of("coder", context, beam(VECTOR))
    assert "yours is number 2" in second and "choose differently" in second
    assert f"{candidate_id(VECTOR)}: Four at a time." in second
    assert "  float4 v = in[i];" in second, "whole, where little of the parent is left"
    alone = [*baseline_turns(), Turn("planner", plan())]
    assert "kernels of this plan" not in prompt_of("coder", context, alone)


def test_a_plan_may_take_two_parents(context: ChatContext) -> None:
    turns = [*baseline_turns(), *a_round(VECTOR, 1.5), *a_round(OTHER, 1.2)]
    both = plan().model_copy(update={"anchor": "float4 v = in[i];"})
    both = both.model_copy(update={"second_parent": candidate_id(OTHER)})
    text = prompt_of("coder", context, [*turns, Turn("planner", both)])
    assert f"## The second parent, {candidate_id(OTHER)}" in text and "+// another" in text
    state = state_of(turns)
    assert contradiction(both, context, state) is None
    for name, why in (("f" * 12, "no correct candidate is named"), (VECTOR, "the parent itself")):
        name = name if len(name) == 12 else candidate_id(name)
        wrong = both.model_copy(update={"second_parent": name})
        assert why in (contradiction(wrong, context, state) or "")


def test_a_tester_whose_cases_are_not_scored_is_not_told_of_scores(context: ChatContext) -> None:
    turns = [Turn("user", run_request())]
    scored = prompt_of("tester", context, turns, Limits(mutants=12))
    assert "A case that detects no bug is discarded" in " ".join(scored.split())
    plain = prompt_of("tester", context, turns, Limits())
    assert "seeded bugs" not in plain and "seeded bugs" not in instructions("tester")


def test_what_accept_accepts_is_shown_where_results_are_judged_by_it(context: ChatContext) -> None:
    routed = replace(context, task=find_task("topk_softmax"))
    begun = baseline_turns(on_case(timed(1.0, "tie"), routed.task.demo[0][0]))
    for role in ("planner", "coder"):
        text = prompt_of(role, routed, [*begun, Turn("planner", plan())])  # type: ignore[arg-type]
        assert "## What `accept` accepts" in text and "def accept(" in text
    assert "def accept(" not in prompt_of("planner", context, baseline_turns())


@pytest.mark.parametrize(
    "said",
    [
        "`cudaMemsetAsync`",
        "cooperative launches with `grid.sync()`",
        "Atomics on results are allowed",
        "distributed shared memory",
        "attention probabilities before the second product",
        "from an infinity times a zero",
    ],
)
def test_the_rules_say_what_live_models_had_to_guess(said: str) -> None:
    for role in ("planner", "coder", "fixer"):
        assert said in " ".join(instructions(role).split())  # type: ignore[arg-type]
