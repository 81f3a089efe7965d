"""A client without a live model: the base of scripted models and of played recordings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autogen_core.models import (
    CreateResult,
    LLMMessage,
    ModelFamily,
    ModelInfo,
    RequestUsage,
    UserMessage,
)

from astra_chat.agents.position import read_position
from astra_chat.agents.turns import Position
from astra_chat.models.layer import Client, Tools

MODEL_INFO = ModelInfo(
    vision=False,
    function_calling=False,
    json_output=True,
    family=ModelFamily.UNKNOWN,
    structured_output=True,
)
NO_USAGE = RequestUsage(prompt_tokens=0, completion_tokens=0)


class OfflineClient(Client):
    """Costs nothing; a subclass answers."""

    async def create(self, messages: Sequence[LLMMessage], **rest: Any) -> CreateResult:
        prompts = [str(m.content) for m in messages if isinstance(m, UserMessage)]
        content = self.answer(prompts)
        return CreateResult(finish_reason="stop", content=content, usage=NO_USAGE, cached=False)

    def answer(self, prompts: Sequence[str]) -> str:
        """A role's reply as JSON to these prompts, oldest first."""
        raise RuntimeError("this recording cannot ask a model")

    async def close(self) -> None:
        """Nothing is open."""

    def actual_usage(self) -> RequestUsage:
        return NO_USAGE

    def total_usage(self) -> RequestUsage:
        return NO_USAGE

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Tools = ()) -> int:
        """No tokens: no model reads them."""
        return 0

    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Tools = ()) -> int:
        """There is no context window; AutoGen wants an integer."""
        return 2**31 - 1

    @property
    def capabilities(self) -> ModelInfo:
        return MODEL_INFO

    @property
    def model_info(self) -> ModelInfo:
        return MODEL_INFO


def position_in(prompts: Sequence[str]) -> Position:
    """The position that the last prompt with one states. Raises ValueError if none does."""
    positions = [one for prompt in prompts if (one := read_position(prompt)) is not None]
    if not positions:
        raise ValueError("a prompt to an offline model does not state its position in the chat")
    return positions[-1]
