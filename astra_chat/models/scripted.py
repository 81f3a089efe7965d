"""Models that read a task's script instead of thinking: a demonstration and a test of everything
else in the chat."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal

from autogen_core import CancellationToken
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    LLMMessage,
    ModelFamily,
    ModelInfo,
    RequestUsage,
    UserMessage,
)
from autogen_core.tools import Tool, ToolSchema
from pydantic import BaseModel

from astra_chat.agents.brief import read_stamp
from astra_chat.agents.payloads import Kernel, NextSpeaker, Pass, Payload
from astra_chat.agents.thread import Position
from astra_chat.models.script import Script
from astra_chat.models.spec import Role

MODEL_INFO = ModelInfo(
    vision=False,
    function_calling=False,
    json_output=True,
    family=ModelFamily.UNKNOWN,
    structured_output=True,
)
NO_USAGE = RequestUsage(prompt_tokens=0, completion_tokens=0)


class ScriptedModels:
    """One client for each role, all reading the same script."""

    name = "scripted"

    def __init__(self, script: Script) -> None:
        self._script = script

    def described(self, role: Role) -> str:
        return self.name

    async def close(self) -> None:
        """Nothing is open."""

    def client(self, role: Role) -> ChatCompletionClient:
        return ScriptedClient(self._script, role)

    def expected(self, kernel: Kernel, place: Position) -> str | None:
        """What the script expects of a kernel: attempt 0 is the coder's, n the fixer's n-th."""
        scripted = self._script.scripted_kernel(place.round, place.attempt)
        if scripted is None or self._script.sources[scripted.file] != kernel.source:
            return None
        return scripted.expects


class ScriptedClient(ChatCompletionClient):
    """Answers by the place in the chat that the prompt names: it has no cursor that could be lost,
    so a run that takes another way than the script, or is resumed, still gets the right answer."""

    component_type = "model"
    component_config_schema = BaseModel

    def __init__(self, script: Script, role: Role) -> None:
        self._script, self._role = script, role

    async def create(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[Tool | ToolSchema] = (),
        tool_choice: Tool | Literal["auto", "required", "none"] = "auto",
        json_output: bool | type[BaseModel] | None = None,
        extra_create_args: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> CreateResult:
        """The script's answer as JSON. Raises ValueError if no prompt names its place."""
        prompts = [str(m.content) for m in messages if isinstance(m, UserMessage)]
        places = [place for prompt in prompts if (place := read_stamp(prompt)) is not None]
        if not places:
            raise ValueError(f"a prompt to the scripted {self._role} names no place in the chat")
        return CreateResult(
            finish_reason="stop",
            content=self._answer(places[-1]),
            usage=NO_USAGE,
            cached=False,
        )

    def _answer(self, place: Position) -> str:
        if self._role == "selector":
            choice = self._script.choice(place.attempt)
            return NextSpeaker(
                choose=choice or "nobody: the script is at its end"
            ).model_dump_json()
        payload = self._payload(place)
        return f'{{"reply": {payload.model_dump_json()}}}'

    def _payload(self, place: Position) -> Payload:
        found: Payload | None
        match self._role:
            case "tester":
                found, lacks = self._script.tests(place.attempt), "further tests"
            case "planner":
                found, lacks = self._script.plan(place.round), "further plan"
            case "coder":
                found, lacks = self._script.kernel(place.round, 0), "kernel for this plan"
            case "fixer":
                found = self._script.kernel(place.round, place.attempt)
                lacks = "further repair for this candidate"
            case _:
                found, lacks = self._script.analysis(place.round), "analysis of this candidate"
        return found or Pass(words=f"the script holds no {lacks}")

    async def create_stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[Tool | ToolSchema] = (),
        tool_choice: Tool | Literal["auto", "required", "none"] = "auto",
        json_output: bool | type[BaseModel] | None = None,
        extra_create_args: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> AsyncGenerator[str | CreateResult, None]:
        """The whole answer as one piece."""
        yield await self.create(messages)

    async def close(self) -> None:
        """Nothing is open."""

    def actual_usage(self) -> RequestUsage:
        return NO_USAGE

    def total_usage(self) -> RequestUsage:
        return NO_USAGE

    def count_tokens(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()
    ) -> int:
        """No tokens: nothing is read by a model."""
        return 0

    def remaining_tokens(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()
    ) -> int:
        """A script has no context window; AutoGen wants an integer."""
        return 2**31 - 1

    @property
    def capabilities(self) -> ModelInfo:
        return MODEL_INFO

    @property
    def model_info(self) -> ModelInfo:
        return MODEL_INFO
