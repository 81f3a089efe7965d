"""Drawing models: the same draw for the same seed, from what the prompt says is to be changed."""

from __future__ import annotations

import random

import pytest

from astra_chat.agents.prompt import ChatContext, turn_prompt
from astra_chat.agents.run_state import state_of
from astra_chat.agents.turns import Turn
from astra_chat.tools.task.folder import Task, find_task
from lab.compare_strategies import pool_of
from lab.random_models import CONSTANT, draw, parent_in
from tests.chat_samples import VECTOR, baseline_turns, coded, evaluation, plan, timed

SOURCE = "// first\nconstexpr int kThreads = 256;\nconstexpr int kRows = 1;\nint x;\n"


def test_a_draw_changes_one_constant_or_takes_another_kernel() -> None:
    pool = {"other.cu": "int y;\n", "this.cu": SOURCE}
    seen = {draw(SOURCE, pool, random.Random(seed)) for seed in range(60)}
    assert ("other.cu in its place", "int y;\n") in seen
    assert ("kThreads 256 -> 512", SOURCE.replace("256", "512")) in seen
    assert ("kThreads 256 -> 128", SOURCE.replace("256", "128")) in seen
    assert ("kRows 1 -> 2", SOURCE.replace("= 1;", "= 2;")) in seen and len(seen) == 4


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(ValueError, match="nothing can be drawn"):
        draw("int x;", {}, random.Random(0))


def test_the_parent_is_what_the_prompt_shows(task: Task) -> None:
    context = ChatContext(task, task.baseline, "sglang", "virtual")
    first = [*baseline_turns(), Turn("planner", plan())]
    shown = parent_in(turn_prompt("coder", context, state_of(first)))
    assert shown.split() == task.baseline.split(), "but for blanks before broken lines"
    fenced = VECTOR + "int last;  // ```\n"
    turns = [
        *first,
        *coded(fenced),
        Turn("executor", evaluation(fenced, timed(1.9))),
        Turn("planner", plan()),
    ]
    assert parent_in(turn_prompt("coder", context, state_of(turns))).split() == fenced.split()


@pytest.mark.parametrize("name", ["silu_and_mul", "fused_add_rmsnorm", "merge_state_v2"])
def test_pools_have_kernels_and_constants_to_turn(name: str) -> None:
    pool = pool_of(find_task(name))
    assert len(pool) >= 7 and any(CONSTANT.search(source) for source in pool.values())
