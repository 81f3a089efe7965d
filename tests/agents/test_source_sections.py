"""Sources in prompts: whole for who changes or tests them, else what runs in timed cases."""

from __future__ import annotations

import pytest

from astra_chat.agents.limits import Limits
from astra_chat.agents.prompt import ChatContext, turn_prompt
from astra_chat.agents.run_state import state_of
from astra_chat.agents.source_sections import parent_source, source_to_edit
from astra_chat.agents.source_text import listing
from astra_chat.agents.turns import RoleName, Turn
from astra_chat.tools.evaluation import CaseLaunches, Evaluation, Evidence
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Finding, Outcome, Refused
from tests.chat_samples import (
    CASE,
    SCALAR,
    WRONG,
    WRONG_OUTCOME,
    analysis,
    baseline_turns,
    coded,
    evaluation,
    plan,
    timed,
)

SLOW = """
__global__ void never_launched(float* out) {
  out[threadIdx.x] = 0.0f;
  __syncthreads();
}
"""
FAST = """
__global__ void kernel(float* out) {
  out[threadIdx.x] = 1.0f;
}
"""


def judged(source: str) -> Evaluation:
    launches = CaseLaunches(case=CASE, launches="kernel grid 4 block 32", plan_sha256="0")
    found = Evidence(judge_sha256="0", cubin_sha256="0", plans=(launches,))
    return evaluation(source, timed(1.5)).model_copy(update={"evidence": found})


@pytest.fixture
def context(task: Task) -> ChatContext:
    return ChatContext(task=task, baseline=task.baseline, tier="sglang", device="virtual GPU")


@pytest.mark.parametrize(
    ("role", "shown"),
    [("profiler", False), ("planner", False), ("coder", True), ("tester", True)],
)
def test_who_changes_or_tests_a_source_sees_all_of_it(
    context: ChatContext, role: RoleName, shown: bool
) -> None:
    source = SLOW + FAST
    thread = [
        *baseline_turns(),
        Turn("planner", plan("first")),
        *coded(source),
        Turn("executor", judged(source)),
        Turn("profiler", analysis()),
    ]
    thread += [Turn("planner", plan("next"))] * (role == "coder")
    text = turn_prompt(role, context, state_of(thread))
    assert "  out[threadIdx.x] = 1.0f;" in text
    assert ("out[threadIdx.x] = 0.0f;" in text) is shown
    assert ("// lines 2 to 5: never_launched, not run in any timed case" in text) is not shown


def test_a_source_of_which_no_launch_is_on_record_is_shown_whole(context: ChatContext) -> None:
    source = SLOW + FAST
    thread = [
        *baseline_turns(),
        Turn("planner", plan("first")),
        *coded(source),
        Turn("executor", evaluation(source, timed(1.5))),
    ]
    assert listing(source) in turn_prompt("profiler", context, state_of(thread))


@pytest.mark.parametrize(
    ("outcome", "fix"),
    [
        (WRONG_OUTCOME, "and fix the error that the case shows."),
        (
            Refused(gate="plan", findings=(Finding(line=1, what="kernel k is not launched"),)),
            "and change what the refusal names.",
        ),
    ],
)
def test_a_fixer_is_pointed_to_a_case_only_where_there_is_one(
    context: ChatContext, outcome: Outcome, fix: str
) -> None:
    confirmed = evaluation(FAST, outcome).model_copy(update={"confirms": True})
    thread = [
        *baseline_turns(),
        Turn("planner", plan("first")),
        *coded(FAST),
        Turn("executor", evaluation(FAST, timed(1.5))),
        Turn("profiler", analysis("stop")),
        Turn("executor", confirmed),
    ]
    state = state_of(thread, Limits(rounds=1, winner_repairs=1))
    text = turn_prompt("fixer", context, state)
    assert fix in text and "How the search evaluated this candidate: " in text
    assert "every candidate has to pass this case" not in text, "no drawn case is on record"


def test_edits_change_the_plans_parent_or_the_candidate_to_fix(context: ChatContext) -> None:
    planned = [*baseline_turns(), Turn("planner", plan())]
    state = state_of(planned)
    assert source_to_edit("coder", context, state) == parent_source(context, state) == SCALAR
    failed = [*planned, *coded(WRONG)]
    assert source_to_edit("fixer", context, state_of(failed)) == WRONG
