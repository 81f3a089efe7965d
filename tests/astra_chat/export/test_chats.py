"""Examples to learn from: prompts, replies, rewards."""

from __future__ import annotations

import json
import math

import pytest

from astra_chat.agents.turns import REPLY_TYPES
from astra_chat.analysis.recorded_run import RecordedRun, load_transcript
from astra_chat.export.chats import FAILED, RULE, chat_examples, reward_steps
from astra_chat.export.filters import Filter
from tests.recorded_files import EXAMPLES


@pytest.fixture(scope="module")
def run() -> RecordedRun:
    return load_transcript(EXAMPLES / "h200/merge_state_v2.jsonl")


def test_an_example_is_a_chat_whose_answer_the_role_may_give(run: RecordedRun) -> None:
    found = list(chat_examples(run, Filter(), "MIT"))
    assert {one.role for one in found} == {"tester", "planner", "coder", "fixer", "profiler"}
    for one in found:
        assert [message.role for message in one.messages] == ["system", "user", "assistant"]
        REPLY_TYPES[one.role].model_validate_json(one.messages[2].content)  # type: ignore[index]
        assert one.license == "MIT" and one.run == run.name


def test_only_confirmed_leaves_the_winners_plan_and_kernel(run: RecordedRun) -> None:
    found = list(chat_examples(run, Filter(confirmed=True)))
    assert [one.role for one in found] == ["planner", "coder"]
    assert {one.candidate for one in found} == {"c23acddfe14c"}
    source = json.loads(found[1].messages[2].content)["reply"]["source"]
    assert source == run.sources["c23acddfe14c"]


def test_a_reward_is_the_gain_over_the_parent(run: RecordedRun) -> None:
    steps = reward_steps(run, Filter())
    by_name = {(one.role, one.candidate): one for one in steps}
    assert by_name["coder", "a1bb21f904b0"].reward == FAILED
    kernel, plan = by_name["coder", "c23acddfe14c"], by_name["planner", "c23acddfe14c"]
    row = next(r for r in run.evaluations if r.candidate == "c23acddfe14c")
    assert row.ratio and row.parent_ratio
    assert kernel.reward == plan.reward == math.log2(row.ratio / row.parent_ratio)
    assert {one.reward_rule for one in steps} == {RULE}
    assert [one.last for one in steps] == [False] * (len(steps) - 1) + [True]
