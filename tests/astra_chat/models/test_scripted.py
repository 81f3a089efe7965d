"""Scripted models: the answer belongs to the place that the prompt names, not to a cursor."""

from __future__ import annotations

import asyncio

import pytest
from autogen_core.models import CreateResult, UserMessage

from astra_chat.agents.position import position_line
from astra_chat.agents.turns import (
    REPLY_TYPES,
    Analysis,
    Kernel,
    NextSpeaker,
    Pass,
    Plan,
    Position,
    ProfilerReply,
    RoleName,
    Source,
)
from astra_chat.models.script import load_script
from astra_chat.models.scripted import ScriptedClient, ScriptedModels
from astra_chat.tools.task.folder import Task
from tests.chat_samples import KERNELS


@pytest.fixture
def models(task: Task) -> ScriptedModels:
    return ScriptedModels(load_script(task))


def ask(models: ScriptedModels, role: str, number: int, attempt: int) -> str:
    prompt = f"words\n{position_line(Position(round=number, attempt=attempt))}"
    client = models.client(role)  # type: ignore[arg-type]
    answer = asyncio.run(client.create([UserMessage(content=prompt, source="user")]))
    assert isinstance(answer.content, str)
    return answer.content


def reply(models: ScriptedModels, role: RoleName, number: int, attempt: int = 1) -> object:
    return REPLY_TYPES[role].model_validate_json(ask(models, role, number, attempt)).reply


def test_answers_do_not_depend_on_the_order_of_questions(models: ScriptedModels) -> None:
    second, first = reply(models, "planner", 2), reply(models, "planner", 1)
    assert isinstance(first, Plan) and isinstance(second, Plan)
    assert first.title == "Leave the scalar loop" and second.title == "Vectors of four"
    assert reply(models, "planner", 2) == second


def test_coder_and_fixer(models: ScriptedModels) -> None:
    coder, fixer = reply(models, "coder", 1), reply(models, "fixer", 1, 2)
    assert isinstance(coder, Source) and coder.source == KERNELS["broken.cu"]
    assert isinstance(fixer, Source) and fixer.source == KERNELS["scalar.cu"]


@pytest.mark.parametrize(
    ("role", "number", "attempt"),
    [("planner", 3, 1), ("coder", 3, 1), ("fixer", 2, 1), ("tester", 0, 3), ("profiler", 3, 1)],
)
def test_beyond_the_script_a_role_passes_and_says_why(
    models: ScriptedModels, role: RoleName, number: int, attempt: int
) -> None:
    said = reply(models, role, number, attempt)
    assert isinstance(said, Pass) and said.words.startswith("the script has no")


def test_evidence_is_what_the_prompt_shows_of_it(models: ScriptedModels) -> None:
    """A script is written for all devices; a profile lacks some of its metrics."""
    none = reply(models, "profiler", 1)
    assert isinstance(none, Analysis) and none.evidence == ()
    place = position_line(Position(round=1, attempt=1))
    plan = "Metric expected to change: sm__throughput, up\nno - global_store_requests 100"
    shown = UserMessage(content=f"{plan}\n- global_load_requests 100\n{place}", source="user")
    answer = asyncio.run(models.client("profiler").create([shown]))
    said = ProfilerReply.model_validate_json(str(answer.content)).reply
    assert isinstance(said, Analysis) and said.evidence == ("global_load_requests",)


def test_the_selector(models: ScriptedModels) -> None:
    assert NextSpeaker.model_validate_json(ask(models, "selector", 1, 1)).choose == "tester"
    assert "has ended" in NextSpeaker.model_validate_json(ask(models, "selector", 2, 2)).choose


def test_a_prompt_without_a_place_is_our_fault(models: ScriptedModels) -> None:
    with pytest.raises(ValueError, match="does not state its position"):
        asyncio.run(models.client("coder").create([UserMessage(content="hi", source="user")]))


def test_after_a_repair_the_place_still_counts(models: ScriptedModels) -> None:
    messages = [
        UserMessage(content=position_line(Position(round=2, attempt=1)), source="user"),
        UserMessage(content="Your reply could not be used: why", source="user"),
    ]
    answer = asyncio.run(models.client("planner").create(messages))
    assert "Vectors of four" in str(answer.content)


def test_a_stream_is_the_whole_answer(models: ScriptedModels) -> None:
    client = models.client("planner")
    assert isinstance(client, ScriptedClient)
    prompt = UserMessage(content=position_line(Position(round=1, attempt=1)), source="user")

    async def pieces() -> list[str | CreateResult]:
        return [piece async for piece in client.create_stream([prompt])]

    found = asyncio.run(pieces())
    assert len(found) == 1 and isinstance(found[0], CreateResult)


def test_what_is_expected_of_a_kernel(models: ScriptedModels) -> None:
    coder = Kernel(words="", source=KERNELS["broken.cu"])
    assert models.expected(coder, Position(round=1, attempt=0)) == "build_failed"
    assert models.expected(coder, Position(round=1, attempt=1)) is None, "another kernel's turn"
    assert models.expected(coder, Position(round=9, attempt=0)) is None
