"""Prompts: pure, bounded, the stable part first, the place in the chat last."""

from __future__ import annotations

from dataclasses import replace

import pytest

from astra_chat.agents.limits import Limits
from astra_chat.agents.position import read_position
from astra_chat.agents.prompt import LOG_ROUNDS, MAX_CHARACTERS, ChatContext, turn_prompt
from astra_chat.agents.run_state import state_of
from astra_chat.agents.source_text import listing
from astra_chat.agents.strategy import Strategy
from astra_chat.agents.turns import (
    MODEL_ROLES,
    Approval,
    Extent,
    Kernel,
    RoleName,
    TestCase,
    TestSuite,
    Turn,
)
from astra_chat.tools.mutation.scores import CaseScore, CaseScores
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import prototype
from astra_chat.tools.types import Case, candidate_id
from tests.chat_samples import (
    BROKEN,
    SCALAR,
    VECTOR,
    WRONG,
    WRONG_OUTCOME,
    analysis,
    asking_turns,
    baseline_turns,
    build,
    coded,
    evaluation,
    plan,
    run_request,
    timed,
)


@pytest.fixture
def context(task: Task) -> ChatContext:
    return ChatContext(task=task, baseline=task.baseline, tier="sglang", device="virtual GPU")


def one_round(number: int, source: str, ratio: float) -> list[Turn]:
    return [
        Turn("planner", plan(f"plan {number}")),
        *coded(source),
        Turn("executor", evaluation(source, timed(ratio))),
        Turn("profiler", analysis()),
    ]


@pytest.mark.parametrize("role", MODEL_ROLES)
def test_prompts_end_with_their_place(context: ChatContext, role: RoleName) -> None:
    thread = [*baseline_turns(), *one_round(1, VECTOR, 1.5)]
    assert read_position(turn_prompt(role, context, state_of(thread))) is not None
    assert turn_prompt(role, context, state_of(thread)) == turn_prompt(
        role, context, state_of(list(thread))
    ), "pure"


def test_the_coder_is_shown_prototype_source_cases_and_plan(context: ChatContext) -> None:
    text = turn_prompt(
        "coder", context, state_of([*baseline_turns(), Turn("planner", plan("Wider loads"))])
    )
    assert prototype(context.task) in text and "Wider loads" in text
    assert listing(SCALAR) in text, "the baseline is what it starts from"
    assert "## Timed cases of the source to change" in text and "\nestimated us | " in text


def test_all_see_the_same_text_of_a_source_with_line_numbers(context: ChatContext) -> None:
    thread = [*baseline_turns(), *one_round(1, VECTOR, 1.5)]
    planned = [*thread, Turn("planner", plan("next"))]
    wrong = [*planned, *coded(WRONG)]
    for role, turns in (
        ("profiler", thread),
        ("tester", thread),
        ("planner", thread),
        ("coder", planned),
    ):
        text = turn_prompt(role, context, state_of(turns))  # type: ignore[arg-type]
        assert listing(VECTOR) in text and " //10\n" in listing(VECTOR)
        assert listing(SCALAR) not in text, "the baseline is left out once a better one stands"
    assert listing(WRONG) in turn_prompt("fixer", context, state_of(wrong))


def test_rounds_evaluations_and_what_is_kept_are_told(context: ChatContext) -> None:
    thread = [*baseline_turns(), *one_round(1, VECTOR, 1.5)]
    limited = replace(context, budget_left=lambda: "7 of 9 evaluations")
    text = turn_prompt("planner", limited, state_of(thread, Limits(rounds=4, patience=2)))
    assert "- round 2 of 4; 2 evaluations so far\n- budget left: 7 of 9 evaluations\n" in text
    assert "- 0 rounds in a row without a gain; the run ends after 2\n" in text
    assert f"- best so far: {candidate_id(VECTOR)}, estimated 1.50x" in text
    assert "differ by less than 4% are a tie" in text
    first = turn_prompt("planner", context, state_of(baseline_turns()))
    assert "- so far, no candidate has been accepted as faster than the baseline\n" in first


def test_planner_and_profiler_are_told_that_a_round_is_the_last(context: ChatContext) -> None:
    thread = [*baseline_turns(), *one_round(1, VECTOR, 1.5)[:-1]]
    for rounds, planner, profiler in ((1, False, True), (2, True, False), (3, False, False)):
        state = state_of(thread, Limits(rounds=rounds))
        assert ("- round 2 of 2, the last;" in turn_prompt("planner", context, state)) is planner
        told = "the last: no plan follows" in turn_prompt("profiler", context, state)
        assert told is profiler


def test_the_tester_is_told_which_of_its_cases_were_kept(context: ChatContext) -> None:
    first, second, third = (
        Case(dims={"rows": rows, "d": 4}, dtype="float32") for rows in (1, 2, 3)
    )
    scores = CaseScores(
        asked=3,
        mutants=("a", "b"),
        own=("a",),
        cases=(
            CaseScore(case=first, kills=("a",)),
            CaseScore(case=second),
            CaseScore(case=third, unjudged="too large"),
        ),
    )
    said = TestSuite(
        words="",
        cases=tuple(
            TestCase(
                dims=tuple(Extent(name=n, value=v) for n, v in case.dims.items()),
                dtype="float32",
                values="normal",
                why="",
            )
            for case in (first, second, third)
        ),
    )
    thread = [*baseline_turns()[:1], Turn("tester", said), Turn("executor", scores)]
    text = turn_prompt("tester", context, state_of(thread))
    assert "- kept, detects 1: rows=1 d=4 float32\n" in text
    assert "- discarded, detects none: rows=2 d=4 float32\n" in text
    assert "- kept, too large: rows=3 d=4 float32\n- survived: b\n" in text
    assert "- survived: b\n- already detected by the task's own cases: a\n" in text
    assert "- testers': 1x4 float32\n- testers': 3x4 float32\n" in text


def test_cases_of_one_kind_stand_on_one_line(context: ChatContext) -> None:
    text = turn_prompt("tester", context, state_of(baseline_turns()))
    assert "must pass, given as rows x d\n- float32: 3x20\n- float32 special: 1x4\n" in text


def test_a_plan_below_the_resolution_is_told_so(context: ChatContext) -> None:
    for ratio, said in ((1.02, True), (1.2, False)):
        planned = plan().model_copy(update={"predicted_ratio": ratio})
        thread = [*baseline_turns(), Turn("planner", planned)]
        text = turn_prompt("coder", context, state_of(thread))
        assert ("within the resolution of estimates (4%)" in text) is said


def test_the_coder_starts_from_the_best_source(context: ChatContext) -> None:
    better = [*baseline_turns(), *one_round(1, VECTOR, 1.5), Turn("planner", plan("next"))]
    text = turn_prompt("coder", context, state_of(better))
    assert listing(VECTOR) in text and "estimated 1.50x" in text
    assert listing(SCALAR) not in text


def test_the_fixer_is_shown_the_candidate_and_the_finding(context: ChatContext) -> None:
    failed = [*baseline_turns(), Turn("planner", plan()), *coded(BROKEN)]
    assert listing(BROKEN) in turn_prompt("fixer", context, state_of(failed))
    assert 'identifier "inn" is undefined' in turn_prompt("fixer", context, state_of(failed))
    wrong = [
        *failed,
        Turn("fixer", Kernel(words="", source=WRONG)),
        Turn("executor", build(WRONG)),
        Turn("executor", evaluation(WRONG, WRONG_OUTCOME)),
    ]
    text = turn_prompt("fixer", context, state_of(wrong))
    assert listing(WRONG) in text and listing(BROKEN) not in text
    assert "never written" in text


def test_the_profiler_is_shown_figures_that_say_what_they_are(context: ChatContext) -> None:
    text = turn_prompt(
        "profiler", context, state_of([*baseline_turns(), *one_round(1, VECTOR, 1.5)])
    )
    assert "global_load_requests | 100" in text and "\nratio | 1.50\nestimated us | 1.33\n" in text
    assert "## Timed cases, by their numbers in the tables\ncase 1: rows=" in text


def test_planner_and_tester_are_told_what_the_profiler_said(context: ChatContext) -> None:
    said = analysis().model_copy(update={"words": "Loads\nwait.", "bottleneck": "latency"})
    first = one_round(1, VECTOR, 1.5)[:-1]
    thread = [*baseline_turns(), *first, Turn("profiler", said)]
    words = "## The profiler on the source to change\nAnalysis: Loads wait.\nBottleneck: latency\n"
    for role in ("planner", "tester"):
        assert words in turn_prompt(role, context, state_of(thread))  # type: ignore[arg-type]
    slower = one_round(2, VECTOR + "//", 1.2)[:-1]
    thread += [*slower, Turn("profiler", said)]
    assert "## The profiler on the last candidate, not on the source to change" in turn_prompt(
        "planner", context, state_of(thread)
    )
    assert "The profiler" not in turn_prompt("coder", context, state_of(thread))


def test_alone_nothing_is_told_twice(context: ChatContext) -> None:
    """The judge on the last candidate, where the profile of the source to change says no less."""
    alone = Turn("user", run_request().model_copy(update={"strategy": Strategy(kind="single")}))
    thread = [alone, *baseline_turns()[1:]]
    text = turn_prompt("single", context, state_of([t for t in thread if t.speaker != "tester"]))
    assert "## Profile of the source to change" in text and "## The judge on" not in text
    first = [*thread, *one_round(1, VECTOR, 1.5)[:-1]]
    slower = [*first, *one_round(2, VECTOR + "//", 1.2)[:-1]]
    assert "## The judge's report on the last candidate" not in turn_prompt(
        "single", context, state_of(first)
    )
    assert "## The judge's report on the last candidate" in turn_prompt(
        "single", context, state_of(slower)
    )


def test_the_stable_part_comes_first(context: ChatContext) -> None:
    early = turn_prompt("planner", context, state_of(baseline_turns()))
    late = turn_prompt(
        "planner", context, state_of([*baseline_turns(), *one_round(1, VECTOR, 1.5)])
    )
    stable = early[: early.index("## The source to change")]
    assert late.startswith(stable), "task and rules can be cached"
    assert "## How candidates are compared" in stable


def test_prompts_stay_bounded(context: ChatContext) -> None:
    thread = baseline_turns()
    sizes = []
    for number in range(1, 41):
        padded = f"{VECTOR}// {number}\n" + "// filler\n" * 400
        thread += one_round(number, padded, 1.0 + number / 100)
        sizes.append(len(turn_prompt("planner", context, state_of(thread))))
    assert max(sizes) < MAX_CHARACTERS
    assert max(sizes[LOG_ROUNDS + 1 :]) - min(sizes[LOG_ROUNDS + 1 :]) < 200, "they do not grow"
    text = turn_prompt("planner", context, state_of(thread))
    assert "28 earlier rounds omitted" in text and "plan 40" in text and "plan 3:" not in text


def test_what_can_be_spared_goes_first(context: ChatContext) -> None:
    large = VECTOR + "int a; //\n" * (MAX_CHARACTERS // 10)
    thread = [*baseline_turns(), *one_round(1, large, 2.0), Turn("planner", plan("next"))]
    text = turn_prompt("coder", context, state_of(thread))
    assert listing(large) in text and "next" in text, "source and plan are never left out"
    assert "## Timed cases" not in text


def test_the_planner_is_told_why_a_human_rejected(context: ChatContext) -> None:
    said = Approval(candidate="c", decision="reject", reason="too bold for this week")
    thread = [*asking_turns(), *one_round(1, VECTOR, 1.5)[:3], Turn("human", said)]
    assert "coder: built, rejected by the human: too bold for this week" in turn_prompt(
        "planner", context, state_of(thread)
    )
