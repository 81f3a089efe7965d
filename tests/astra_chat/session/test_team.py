"""The team: who is in it, and where it ends."""

from __future__ import annotations

import asyncio

from autogen_agentchat.agents import AssistantAgent, UserProxyAgent
from autogen_agentchat.base import TaskResult
from autogen_agentchat.conditions import ExternalTermination
from autogen_agentchat.messages import SelectSpeakerEvent
from autogen_agentchat.teams import SelectorGroupChat

from astra_chat.agents.messages import message
from astra_chat.agents.prompt import ChatContext
from astra_chat.agents.run_state import Limits
from astra_chat.agents.turn_order import STOP_WORDS
from astra_chat.models import open_models
from astra_chat.session.team import Done, build_team
from astra_chat.tools.task.folder import Task
from tests.chat_samples import WRONG_OUTCOME, FixedJudge, baseline_turns, commission


def test_the_team_is_autogens(task: Task, fixed_judge: FixedJudge) -> None:
    setting = ChatContext(
        task=task, baseline=task.baseline, tier="sglang", device="virtual", limits=Limits()
    )
    team, moderator = build_team(
        setting, open_models("scripted", task), fixed_judge, print, ExternalTermination()
    )
    assert isinstance(team, SelectorGroupChat)
    members = {agent.name: agent for agent in team._participants}
    assert isinstance(members.pop("executor"), UserProxyAgent)
    assert set(members) == {"tester", "planner", "coder", "fixer", "profiler"}
    assert all(isinstance(agent, AssistantAgent) for agent in members.values())

    async def chat() -> tuple[list[str], str | None]:
        chosen: list[str] = []
        async for item in team.run_stream(task=message("user", commission())):
            if isinstance(item, SelectSpeakerEvent):
                chosen += item.content
            elif isinstance(item, TaskResult):
                return chosen, item.stop_reason
        raise AssertionError("no result")

    chosen, stop = asyncio.run(chat())
    assert chosen == [decision.speaker for decision in moderator.decisions]
    assert stop == STOP_WORDS["no_plan"]


def test_done_ends_where_nobody_may_speak() -> None:
    turns = baseline_turns(WRONG_OUTCOME)
    messages = [message(turn.speaker, turn.payload) for turn in turns]

    async def ask() -> None:
        done = Done(Limits())
        assert await done(messages[:2]) is None and not done.terminated
        stop = await done(messages[2:])
        assert stop is not None and stop.content == STOP_WORDS["baseline_failed"]
        assert done.terminated
        await done.reset()
        assert not done.terminated

    asyncio.run(ask())
