"""Marked constants in a chat: when they are tuned, what follows, and what is sent back."""

from __future__ import annotations

import pytest

from astra_chat.agents.constants import is_marked, unreadable_marks, without_effect
from astra_chat.agents.limits import Limits
from astra_chat.agents.prompt import ChatContext, turn_prompt
from astra_chat.agents.role_agent import payload_of
from astra_chat.agents.run_state import RunState, state_of
from astra_chat.agents.turn_order import Ask, AskHuman, Build, Propose, Run, Tune, next_step
from astra_chat.agents.turns import Approval, Kernel, KernelReply, Payload, Source, Speaker, Turn
from astra_chat.tools.task.folder import Task
from astra_chat.tools.tuning.tuned import TriedPoint, Tuning
from astra_chat.tools.types import candidate_id
from tests.chat_samples import (
    DEVICE,
    SCALAR,
    VECTOR,
    WRONG_OUTCOME,
    asking_turns,
    baseline_turns,
    build,
    evaluation,
    plan,
    timed,
)

MARKED = VECTOR.replace(
    "__global__", "constexpr int kThreads = 128;  // tune: 64 256\n__global__", 1
)
TUNED = MARKED.replace("kThreads = 128;  // tune: 64 256", "kThreads = 64;  // tune: 128 256")
TUNES = Limits(rounds=2, tune=8)
PROFILER = Ask("profiler", "profiler")


def tuning(best: int = 64) -> Tuning:
    ratios = {64: 2.1, 128: 1.9}
    return Tuning(
        candidate=candidate_id(MARKED),
        combinations=3,
        points=(
            *(TriedPoint(values={"kThreads": n}, estimated_ratio=r) for n, r in ratios.items()),
            TriedPoint(values={"kThreads": 256}, estimated_ratio=None, failed="crashed"),
        ),
        start={"kThreads": 128},
        best={"kThreads": best},
        seconds=1.5,
    )


def chat(*turns: tuple[Speaker, Payload], limits: Limits = TUNES) -> RunState:
    """After a marked kernel that is 1.9 times as fast, and these turns."""
    first: list[tuple[Speaker, Payload]] = [
        ("planner", plan()),
        ("coder", Kernel(words="w", source=MARKED)),
        ("executor", build(MARKED)),
        ("executor", evaluation(MARKED, timed(1.9))),
    ]
    return state_of(
        [*baseline_turns(), *(Turn(who, said) for who, said in [*first, *turns])], limits
    )


def test_a_correct_marked_kernel_is_tuned_and_the_tuned_one_judged() -> None:
    state = chat()
    assert next_step(state) == Tune(Kernel(words="w", source=MARKED))
    state = state.after(Turn("executor", tuning()))
    proposed = next_step(state)
    assert isinstance(proposed, Propose) and proposed.kernel.source == TUNED
    assert state.parent_of("executor") == candidate_id(MARKED)
    assert "kThreads = 64 (was 128)" in proposed.kernel.words
    state = state.after(Turn("executor", proposed.kernel))
    assert next_step(state) == Build((proposed.kernel,))
    state = state.after(Turn("executor", build(TUNED)))
    assert next_step(state) == Run(proposed.kernel)
    state = state.after(Turn("executor", evaluation(TUNED, timed(2.1))))
    assert next_step(state) == PROFILER
    assert state.best is not None and state.best[0].candidate == candidate_id(TUNED)


def test_of_several_candidates_the_fastest_marked_one_is_tuned_once_a_round() -> None:
    slower = MARKED + "// slower\n"
    state = chat(
        ("coder", Kernel(words="s", source=slower)),
        ("executor", build(slower)),
        ("executor", evaluation(slower, timed(1.2))),
    )
    assert next_step(state) == Tune(Kernel(words="w", source=MARKED))
    assert next_step(state.after(Turn("executor", tuning(best=128)))) == PROFILER


def test_a_human_decides_before_a_tuned_kernel_is_run() -> None:
    limits = TUNES.model_copy(update={"confirmations": 0})
    state = state_of([*asking_turns(), Turn("planner", plan())], limits)
    kernel = Kernel(words="w", source=MARKED)
    for who, said in (
        ("coder", kernel),
        ("executor", build(MARKED)),
        ("human", Approval(candidate=kernel.candidate, decision="approve")),
        ("executor", evaluation(MARKED, timed(1.9))),
    ):
        state = state.after(Turn(who, said))
    assert next_step(state) == AskHuman("accept")
    approved = Approval(candidate=kernel.candidate, decision="approve")
    assert next_step(state.after(Turn("human", approved))) == Tune(kernel)
    state = state.after(Turn("human", approved)).after(Turn("executor", tuning()))
    state = state.after(Turn("executor", Kernel(words="t", source=TUNED)))
    assert next_step(state.after(Turn("executor", build(TUNED)))) == AskHuman("run")
    rejected = Approval(candidate=candidate_id(TUNED), decision="reject")
    last = state.after(Turn("executor", build(TUNED))).after(Turn("human", rejected))
    assert next_step(last) == Ask("planner", "planner")


def test_a_tuned_kernel_that_fails_goes_to_no_fixer() -> None:
    tuned = Kernel(words="t", source=TUNED)
    state = chat(
        ("executor", tuning()),
        ("executor", tuned),
        ("executor", build(TUNED)),
        ("executor", evaluation(TUNED, WRONG_OUTCOME)),
    )
    assert next_step(state) == PROFILER
    assert state.best is not None and state.best[0].candidate == candidate_id(MARKED)


def test_where_tuning_changes_nothing_the_profiler_is_next() -> None:
    assert next_step(chat(("executor", tuning(best=128)))) == PROFILER


@pytest.mark.parametrize("source", [VECTOR, MARKED.replace("tune: 64 256", "tune: many")])
def test_without_readable_marks_or_the_option_nothing_is_tuned(source: str) -> None:
    """The second source is a human's: a model's would have been sent back."""
    assert not is_marked(source)
    assert next_step(chat(limits=Limits(rounds=2))) == PROFILER


def test_marks_that_cannot_be_read_are_sent_back(task: Task) -> None:
    broken = MARKED.replace("tune: 64 256", "tune: 64 many")
    context = ChatContext(task, SCALAR, "sglang", DEVICE.name)
    state = state_of([*baseline_turns(), Turn("planner", plan())], TUNES)
    answer = KernelReply(reply=Source(words="w", source=broken))
    with pytest.raises(ValueError, match="64 many"):
        payload_of("coder", answer, context, state)
    assert unreadable_marks(MARKED) is None
    off = state_of([*baseline_turns(), Turn("planner", plan())], Limits(rounds=2))
    assert payload_of("coder", answer, context, off) == Kernel(words="w", source=broken)


def test_the_coder_is_told_only_where_the_run_tunes(task: Task) -> None:
    context = ChatContext(task, SCALAR, "sglang", DEVICE.name)
    turns = [*baseline_turns(), Turn("planner", plan())]
    prompts = [
        turn_prompt("coder", context, state_of(turns, limits)) for limits in (TUNES, Limits())
    ]
    assert "// tune: 64 128 512" in prompts[0] and "// tune" not in prompts[1]


def test_planner_and_profiler_read_what_was_tuned(task: Task) -> None:
    state = chat(("executor", tuning()))
    context = ChatContext(task, SCALAR, "sglang", DEVICE.name)
    told = turn_prompt("planner", context, state)
    assert "kThreads = 64 (was 128)" in told and "if there are more than 8, a sample" in told
    assert tuning().words in turn_prompt("profiler", context, state)
    assert "left open" not in turn_prompt("profiler", context, chat())


def test_what_came_next_is_told_where_nothing_was_faster() -> None:
    words = tuning(best=128).words
    assert words.endswith(
        "none is faster than the constants of "
        + candidate_id(MARKED)
        + " by more than the resolution (1.900x by estimate; kThreads = 64: 2.100x)."
        " Tried: kThreads 64, 128"
    )
    alone = tuning(best=128).model_copy(update={"points": tuning().points[2:]})
    assert alone.words.endswith("more than the resolution"), "it has no estimate itself"


def test_constants_that_made_no_difference_are_named_to_the_coder() -> None:
    assert without_effect(chat(("executor", tuning(best=64)))) == "", "it found a faster one"
    said = without_effect(chat(("executor", tuning(best=128))))
    assert said.startswith(
        "Values already tried, none of which was faster by more than the resolution: kThreads 64, "
        "128, 256."
    )


def test_one_tuning_proposes_one_kernel() -> None:
    """Also where the kernel that was recorded then has another text than today's would have."""
    other = Kernel(words="", source=TUNED + "// as an earlier version wrote it")
    state = chat(("executor", tuning()), ("executor", other), ("executor", build(other.source)))
    assert next_step(state) == Run(other)
    judged = Turn("executor", evaluation(other.source, timed(2.1)))
    assert next_step(state.after(judged)) == PROFILER
