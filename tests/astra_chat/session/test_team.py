"""The team: who is in it, and where it ends."""

from __future__ import annotations

import asyncio

import pytest
from autogen_agentchat.agents import AssistantAgent, UserProxyAgent
from autogen_agentchat.base import TaskResult
from autogen_agentchat.conditions import ExternalTermination
from autogen_agentchat.messages import SelectSpeakerEvent
from autogen_agentchat.teams import SelectorGroupChat

from astra_chat.agents.messages import SharedState, message
from astra_chat.agents.prompt import ChatContext
from astra_chat.agents.run_state import state_of
from astra_chat.agents.turn_order import STOP_TEXTS
from astra_chat.agents.turns import Turn
from astra_chat.models.open_models import open_models
from astra_chat.session.session import TurnOrder, build_team
from astra_chat.tools.task.folder import Task
from tests.chat_samples import (
    VECTOR,
    WRONG_OUTCOME,
    FixedJudge,
    asking_turns,
    baseline_turns,
    coded,
    plan,
    run_request,
)

ASKED = [Turn("planner", plan()), *coded(VECTOR)]


def test_the_team_is_autogens(task: Task, fixed_judge: FixedJudge) -> None:
    context = ChatContext(task=task, baseline=task.baseline, tier="sglang", device="virtual")
    team, selector = build_team(
        context,
        state_of([Turn("user", run_request())]),
        open_models("scripted", task),
        fixed_judge,
        print,
        ExternalTermination(),
    )
    assert isinstance(team, SelectorGroupChat)
    members = {agent.name: agent for agent in team._participants}
    assert isinstance(members.pop("executor"), UserProxyAgent)
    assert set(members) == {"tester", "planner", "coder", "fixer", "profiler"}
    assert all(isinstance(agent, AssistantAgent) for agent in members.values())

    async def chat() -> tuple[list[str], str | None]:
        chosen: list[str] = []
        async for item in team.run_stream(task=message("user", run_request())):
            if isinstance(item, SelectSpeakerEvent):
                chosen += item.content
            elif isinstance(item, TaskResult):
                return chosen, item.stop_reason
        raise AssertionError("no result")

    chosen, stop = asyncio.run(chat())
    assert chosen == [decision.speaker for decision in selector.decisions]
    assert stop == STOP_TEXTS["no_plan"]


@pytest.mark.parametrize(
    ("turns", "why"),
    [
        (baseline_turns(WRONG_OUTCOME), STOP_TEXTS["baseline_failed"]),
        ([*asking_turns(), *ASKED], "a human decides"),
    ],
)
def test_a_team_ends_where_no_agent_takes_the_next_step(turns: list[Turn], why: str) -> None:
    shared = SharedState(state_of(turns[:-1]))

    async def ask() -> None:
        condition = TurnOrder(shared)
        assert await condition([]) is None and not condition.terminated
        shared.add(turns[-1].speaker, turns[-1].payload)
        stop = await condition([])
        assert stop is not None and stop.content == why
        assert condition.terminated
        await condition.reset()
        assert not condition.terminated

    asyncio.run(ask())
