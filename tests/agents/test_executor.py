"""The executor: the baseline first, then build and evaluation of every kernel, and cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

import pytest
from autogen_agentchat.agents import UserProxyAgent
from autogen_core import CancellationToken

from astra_chat.agents.executor import Executor
from astra_chat.agents.messages import (
    BuildMessage,
    ExecutionMessage,
    PassMessage,
    SharedState,
    turn,
)
from astra_chat.agents.run_state import RunState
from astra_chat.agents.turns import Approval, Kernel, Turn
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.types import Case, candidate_id
from astra_vgpu.ground.errors import MissingDependency
from tests.chat_samples import (
    BROKEN,
    SCALAR,
    VECTOR,
    FixedJudge,
    analysis,
    asking_turns,
    baseline_turns,
    build,
    evaluation,
    plan,
    suite,
    timed,
)

Speak: TypeAlias = Callable[[Sequence[Turn]], object]


@pytest.fixture
def state() -> SharedState:
    return SharedState(RunState())


@pytest.fixture
def speak(state: SharedState, executor: Executor) -> Speak:
    """What the executor answers to these turns."""

    def after(turns: Sequence[Turn]) -> object:
        for said in turns:
            state.add(said.speaker, said.payload)
        return answer(executor)

    return after


def answer(executor: Executor) -> object:
    response = asyncio.run(executor.on_messages([], CancellationToken()))
    assert isinstance(response.chat_message, BuildMessage | ExecutionMessage | PassMessage)
    return turn(response.chat_message).payload


@pytest.fixture
def failures() -> list[Exception]:
    return []


@pytest.fixture
def executor(fixed_judge: FixedJudge, state: SharedState, failures: list[Exception]) -> Executor:
    return Executor(fixed_judge, SCALAR, state, failures.append)


def test_it_is_a_user_proxy(executor: Executor) -> None:
    assert isinstance(executor, UserProxyAgent)


def test_baseline_then_build_then_evaluation(fixed_judge: FixedJudge, speak: Speak) -> None:
    first = speak(baseline_turns()[:2])
    assert isinstance(first, Evaluation) and first.candidate == candidate_id(SCALAR)
    kernel = Turn("coder", Kernel(words="", source=VECTOR))
    built = speak([Turn("planner", plan()), kernel])
    assert isinstance(built, BuildReport) and built.candidate == candidate_id(VECTOR)
    assert len(fixed_judge.evaluated) == 1, "nothing of the candidate has run yet"
    judged = speak([])
    assert isinstance(judged, Evaluation) and judged.candidate == candidate_id(VECTOR)


def test_the_testers_cases_are_run_with_every_later_candidate(
    fixed_judge: FixedJudge, speak: Speak
) -> None:
    speak(baseline_turns()[:2])
    kernel = Turn("coder", Kernel(words="", source=VECTOR))
    speak([Turn("tester", suite((9, 8))), Turn("planner", plan()), kernel])
    speak([])
    seven = Case(dims={"rows": 7, "d": 12}, dtype="float32")
    nine = Case(dims={"rows": 9, "d": 8}, dtype="float32")
    assert [cases for _, cases in fixed_judge.evaluated] == [(seven,), (seven, nine)]


def test_an_approved_candidate_is_run(fixed_judge: FixedJudge, speak: Speak) -> None:
    speak(asking_turns()[:2])
    speak([Turn("planner", plan()), Turn("coder", Kernel(words="", source=VECTOR))])
    said = Approval(candidate=candidate_id(VECTOR), decision="approve")
    judged = speak([Turn("human", said)])
    assert isinstance(judged, Evaluation) and judged.candidate == candidate_id(VECTOR)


def test_out_of_turn_it_says_so(speak: Speak) -> None:
    speak(baseline_turns()[:2])
    assert "no kernel" in str(speak([Turn("planner", plan())]))


def test_a_failed_build_is_not_run(fixed_judge: FixedJudge, speak: Speak) -> None:
    speak(baseline_turns()[:2])
    kernel = Turn("coder", Kernel(words="", source=BROKEN))
    assert isinstance(speak([Turn("planner", plan()), kernel]), BuildReport)
    assert "no kernel" in str(speak([]))
    assert len(fixed_judge.evaluated) == 1


def test_the_machines_faults_are_handed_over(
    fixed_judge: FixedJudge, failures: list[Exception], speak: Speak
) -> None:
    def lack() -> None:
        raise MissingDependency("no nvcc")

    fixed_judge.before = lack
    with pytest.raises(MissingDependency):
        speak(baseline_turns()[:2])
    assert [str(failure) for failure in failures] == ["no nvcc"]


def test_cancelling_the_token_stops_the_judge(
    executor: Executor, state: SharedState, fixed_judge: FixedJudge
) -> None:
    started = threading.Event()

    def wait() -> None:
        started.set()
        assert fixed_judge.cancelled.wait(10), "nobody stopped the judge"

    fixed_judge.before = wait

    async def cancel_it() -> None:
        for said in baseline_turns()[:2]:
            state.add(said.speaker, said.payload)
        token = CancellationToken()
        answer = asyncio.ensure_future(executor.on_messages([], token))
        await asyncio.to_thread(started.wait, 10)
        token.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answer

    asyncio.run(cancel_it())
    assert fixed_judge.cancelled.is_set()


def test_the_winner_is_evaluated_once_more_before_the_end(
    fixed_judge: FixedJudge, speak: Speak
) -> None:
    kernel = Turn("coder", Kernel(words="", source=VECTOR))
    judged = Turn("executor", evaluation(VECTOR, timed(1.9)))
    turns = [*baseline_turns(), Turn("planner", plan()), kernel, judged]
    found = speak([*turns, Turn("profiler", analysis("stop"))])
    assert isinstance(found, Evaluation) and found.confirms
    assert fixed_judge.evaluated[-1][0] == VECTOR


def test_what_a_human_is_to_accept_is_confirmed_before_other_kernels_are_run(
    fixed_judge: FixedJudge, speak: Speak
) -> None:
    other = VECTOR + "// another\n"
    turns = [
        *asking_turns(),
        Turn("planner", plan()),
        Turn("coder", Kernel(words="", source=VECTOR)),
        Turn("coder", Kernel(words="", source=other)),
        Turn("executor", build(VECTOR)),
        Turn("human", Approval(candidate=candidate_id(VECTOR), decision="approve")),
        Turn("executor", evaluation(VECTOR, timed(1.9))),
    ]
    found = speak(turns)
    assert isinstance(found, Evaluation) and found.confirms
    assert found.candidate == candidate_id(VECTOR)
