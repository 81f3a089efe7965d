"""A role that a model plays: typed replies, repair as text, a limit, and bounded prompts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseChatMessage
from autogen_core import CancellationToken
from autogen_core.models import CreateResult, LLMMessage, ModelInfo, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

from astra_chat.agents.messages import (
    ContradictionEvent,
    KernelMessage,
    PassMessage,
    PlanMessage,
    RejectedReplyEvent,
    SharedState,
    TestSuiteMessage,
)
from astra_chat.agents.prompt import ChatContext
from astra_chat.agents.reply_errors import STARTS, TRIES
from astra_chat.agents.role_agent import RoleAgent
from astra_chat.agents.run_state import RunState
from astra_chat.agents.strategy import parse_strategy
from astra_chat.agents.turns import (
    Edit,
    Edits,
    KernelReply,
    Pass,
    PlannerReply,
    RoleName,
    SingleReply,
    Source,
    TesterReply,
    Turn,
)
from astra_chat.tools.task.folder import Task
from astra_vgpu.ground.errors import MissingDependency
from tests.chat_samples import BROKEN, baseline_turns, coded, plan, run_request, suite

INFO = ModelInfo(
    vision=False, function_calling=False, json_output=True, family="unknown", structured_output=True
)
GOOD = PlannerReply(reply=plan()).model_dump_json()


class Recording(ReplayChatCompletionClient):
    """AutoGen's replaying client that keeps what it was asked."""

    def __init__(self, answers: Sequence[str]) -> None:
        results = [
            CreateResult(
                finish_reason="stop",
                content=answer,
                usage=RequestUsage(prompt_tokens=5, completion_tokens=7),
                cached=False,
            )
            for answer in answers
        ]
        super().__init__(results, model_info=INFO)
        self.asked: list[list[str]] = []
        self.forms: list[object] = []

    async def create(self, messages: Sequence[LLMMessage], **rest: Any) -> CreateResult:
        self.asked.append([str(m.content) for m in messages])
        self.forms.append(rest.get("json_output"))
        return await super().create(messages, **rest)


class Talk:
    """One agent, and what it says when it is spoken to."""

    def __init__(self, task: Task, role: RoleName, answers: Sequence[str]) -> None:
        context = ChatContext(task=task, baseline=task.baseline, tier="sglang", device="virtual")
        self.client = Recording(answers)
        self.failures: list[Exception] = []
        self.doubts: list[ContradictionEvent] = []
        self.state = SharedState(RunState())
        self.agent = RoleAgent(role, context, self.state, self.client, self.failures.append)

    def speak(self, turns: Sequence[Turn]) -> tuple[list[str], BaseChatMessage]:
        """Reasons of repairs, and the final message."""
        for turn in turns:
            self.state.add(turn.speaker, turn.payload)

        async def follow() -> tuple[list[str], BaseChatMessage]:
            reasons = []
            async for item in self.agent.on_messages_stream([], CancellationToken()):
                if isinstance(item, RejectedReplyEvent):
                    reasons.append(item.content)
                elif isinstance(item, ContradictionEvent):
                    self.doubts.append(item)
                elif isinstance(item, Response):
                    return reasons, item.chat_message
            raise AssertionError("no response")

        return asyncio.run(follow())


def test_a_reply_becomes_the_message_of_its_payload(task: Task) -> None:
    talk = Talk(task, "planner", [GOOD])
    reasons, said = talk.speak(baseline_turns())
    assert isinstance(said, PlanMessage) and said.content == plan() and not reasons
    assert said.source == "planner"
    assert said.models_usage == RequestUsage(prompt_tokens=5, completion_tokens=7)


def _planned(anchor: str) -> str:
    return PlannerReply(reply=plan().model_copy(update={"anchor": anchor})).model_dump_json()


DOUBTED, AGAIN = _planned("no such line"), _planned("nor this one")


@pytest.mark.parametrize(
    ("answers", "anchor", "repairs", "doubts"),
    [
        ([DOUBTED, GOOD], plan().anchor, 0, [False]),
        ([DOUBTED, DOUBTED], "no such line", 0, [False, True]),
        ([DOUBTED, AGAIN], "nor this one", 0, [False, True]),
        (["Sure!", DOUBTED, GOOD], plan().anchor, 1, [False]),
        (["Sure!", "Sure!", DOUBTED], "no such line", 2, [True]),
        ([DOUBTED, "Sure!", "Sure!"], "no such line", 2, [False, True]),
        ([DOUBTED, "Sure!", GOOD], plan().anchor, 1, [False]),
    ],
)
def test_a_doubted_reply_goes_back_once_and_never_becomes_a_pass(
    task: Task, answers: list[str], anchor: str, repairs: int, doubts: list[bool]
) -> None:
    talk = Talk(task, "planner", answers)
    reasons, said = talk.speak(baseline_turns())
    assert isinstance(said, PlanMessage) and said.content.anchor == anchor
    assert len(reasons) == repairs and [event.stands for event in talk.doubts] == doubts
    assert len(talk.client.asked) == len(answers)
    assert all("is not in the source to change" in event.content for event in talk.doubts)
    told = [text for text in talk.client.asked[-1] if "contradicts the facts" in text]
    assert len(told) == (doubts[0] is False)


def test_a_pass_is_a_reply_too(task: Task) -> None:
    reply = PlannerReply(reply=Pass(words="nothing left")).model_dump_json()
    _, said = Talk(task, "planner", [reply]).speak(baseline_turns())
    assert isinstance(said, PassMessage) and said.content.words == "nothing left"


def test_malformed_replies_are_repaired_in_words(task: Task) -> None:
    talk = Talk(task, "planner", ["Sure!", '{"reply": {"kind": "plan"}}', GOOD])
    reasons, said = talk.speak(baseline_turns())
    assert isinstance(said, PlanMessage)
    assert len(reasons) == 2 and "title" in reasons[1]
    last = talk.client.asked[-1]
    assert last[2:4] == ["Sure!", last[3]] and reasons[0] in last[3], "it sees what it said"
    assert reasons[1] in last[-1]


def test_the_limit_in_a_row_ends_in_a_pass(task: Task) -> None:
    talk = Talk(task, "tester", ["no"] * TRIES)
    reasons, said = talk.speak([Turn("user", run_request())])
    assert isinstance(said, PassMessage) and len(reasons) == TRIES
    assert "no usable reply" in said.content.words and not talk.failures


@pytest.mark.parametrize("role", ["planner", "single"])
def test_a_planner_is_asked_from_the_beginning_before_a_run_is_given_up(
    task: Task, role: RoleName
) -> None:
    """Its pass would end the run with words that are not true."""
    made = GOOD if role == "planner" else SingleReply(reply=plan()).model_dump_json()
    talk = Talk(task, role, [*["no"] * TRIES, made])
    reasons, said = talk.speak(baseline_turns())
    assert isinstance(said, PlanMessage) and len(reasons) == TRIES
    assert talk.client.asked[-1] == talk.client.asked[0], "without what it said before"
    tries = STARTS * TRIES
    talk = Talk(task, role, ["no"] * tries)
    with pytest.raises(
        MissingDependency, match=f"the {role}'s model gave no usable reply in 9 tri"
    ):
        talk.speak(baseline_turns())
    assert len(talk.client.asked) == tries and len(talk.failures) == 1


def test_illegal_cases_go_back_in_words(task: Task) -> None:
    bad = TesterReply(reply=suite((7, 13))).model_dump_json()
    good = TesterReply(reply=suite((7, 12))).model_dump_json()
    reasons, said = Talk(task, "tester", [bad, good]).speak([Turn("user", run_request())])
    assert isinstance(said, TestSuiteMessage) and said.content == suite((7, 12))
    assert "d = 13" in reasons[0]


def test_prompts_do_not_pile_up(task: Task) -> None:
    talk = Talk(task, "planner", [GOOD, GOOD])
    talk.speak(baseline_turns())
    talk.speak([])
    first, second = talk.client.asked
    assert len(first) == len(second) == 2, "instructions and one turn_prompt"
    assert "attempt 1." in second[1] and "round 2" in second[1], "it remembers its own plan"


def test_a_failing_client_is_handed_over_as_it_is(task: Task) -> None:
    talk = Talk(task, "planner", [])
    with pytest.raises(ValueError, match="No more mock responses"):
        talk.speak(baseline_turns())
    assert [type(failure) for failure in talk.failures] == [ValueError]


def test_the_schema_goes_to_the_model() -> None:
    schema = json.dumps(PlannerReply.model_json_schema())
    assert "predicted_ratio" in schema


def edited(*pairs: tuple[str, str]) -> str:
    made = tuple(Edit(find=find, replace=replace) for find, replace in pairs)
    return KernelReply(reply=Edits(words="w", edits=made)).model_dump_json()


def test_edits_become_a_whole_kernel(task: Task) -> None:
    line = task.baseline.splitlines()[0]
    talk = Talk(task, "coder", [edited(("nowhere", "x")), edited((line, f"{line}\n// new"))])
    reasons, said = talk.speak([*baseline_turns(), Turn("planner", plan())])
    assert len(reasons) == 1 and "occurs 0 times" in reasons[0]
    assert isinstance(said, KernelMessage) and said.content.edits == 1
    assert said.content.source == task.baseline.replace(line, f"{line}\n// new", 1)


def test_edits_that_leave_no_usable_source_go_back(task: Task) -> None:
    line = task.baseline.splitlines()[0]
    answers = [edited((line, "// \0")), edited((line, "x" * 400_000)), edited((line, "// new"))]
    reasons, said = Talk(task, "coder", answers).speak([*baseline_turns(), Turn("planner", plan())])
    assert "NUL" in reasons[0] and "at most 400,000" in reasons[1]
    assert isinstance(said, KernelMessage) and "// new" in said.content.source


def test_the_fixers_edits_are_made_in_the_failing_candidate(task: Task) -> None:
    turns = [*baseline_turns(), Turn("planner", plan()), *coded(BROKEN)]
    _, said = Talk(task, "fixer", [edited(("inn[i]", "in[i]"))]).speak(turns)
    assert isinstance(said, KernelMessage)
    assert said.content.source == BROKEN.replace("inn[i]", "in[i]")


def test_alone_a_kernel_in_a_plans_place_goes_back(task: Task) -> None:
    kernel = SingleReply(reply=Source(words="", source="x")).model_dump_json()
    good = SingleReply(reply=plan()).model_dump_json()
    reasons, said = Talk(task, "single", [kernel, good]).speak(baseline_turns())
    assert reasons == ["it does not match the schema: kind should be 'plan' or 'pass'"]
    assert isinstance(said, PlanMessage)


def test_alone_only_the_form_that_is_wanted_is_asked_for(task: Task) -> None:
    request = run_request().model_copy(update={"strategy": parse_strategy("single")})
    first = [Turn("user", request), baseline_turns()[2]]
    for turns, reply, form in (
        (first, PlannerReply(reply=plan()), PlannerReply),
        ([*first, Turn("single", plan())], KernelReply(reply=Pass(words="")), KernelReply),
    ):
        talk = Talk(task, "single", [reply.model_dump_json()])
        talk.speak(turns)
        assert talk.client.forms == [form]
