"""A client that stands between a role and its model, with the tape running."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autogen_core import CancellationToken
from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage
from autogen_core.tools import Tool
from pydantic import TypeAdapter

from astra_chat.models.answer import Answer
from astra_chat.models.cassette import Json, Tape
from astra_chat.models.layer import JsonOutput, Layer, ToolChoice, Tools
from astra_chat.models.spec import Role
from astra_chat.tools.errors import AstraError, BadInput, EnvironmentLack

FAILURES: dict[str, type[AstraError]] = {c.__name__: c for c in (BadInput, EnvironmentLack)}
ANSWERS: dict[str, type[CreateResult]] = {c.__name__: c for c in (Answer, CreateResult)}
MESSAGE: TypeAdapter[LLMMessage] = TypeAdapter(LLMMessage)


class CassetteClient(Layer):
    """Failures are on the tape too: a run that ended with one ends with it again."""

    def __init__(self, inner: ChatCompletionClient, role: Role, model: str, tape: Tape) -> None:
        """`model`: what plays the role, with everything that shapes its answers."""
        super().__init__(inner)
        self._role, self._model, self._tape = role, model, tape

    async def create(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Tools = (),
        tool_choice: ToolChoice = "auto",
        json_output: JsonOutput = None,
        extra_create_args: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> CreateResult:
        """The recorded answer, or the model's own, which is then on the tape."""
        request = {
            "model": self._model,
            "messages": [MESSAGE.dump_python(one, mode="json") for one in messages],
            "reply": _schema(json_output),
            "tools": [one.schema if isinstance(one, Tool) else one for one in tools],
            "tool_choice": tool_choice.name if isinstance(tool_choice, Tool) else tool_choice,
            "extra": dict(extra_create_args or {}),
        }
        place = self._tape.place(self._role, request)
        recorded = self._tape.recorded(place)
        if recorded is not None:
            return _played(recorded)
        try:
            result = await super().create(
                messages, tools=tools, tool_choice=tool_choice, json_output=json_output,
                extra_create_args=extra_create_args, cancellation_token=cancellation_token,
            )  # fmt: skip
        except tuple(FAILURES.values()) as error:
            self._tape.keep(place, {"failure": type(error).__name__, "words": str(error)})
            raise
        kind = "Answer" if isinstance(result, Answer) else "CreateResult"
        self._tape.keep(place, {"kind": kind, "result": result.model_dump(mode="json")})
        return result


def _schema(json_output: JsonOutput) -> Any:
    return json_output.model_json_schema() if isinstance(json_output, type) else json_output


def _played(answer: Json) -> CreateResult:
    if "failure" in answer:
        raise FAILURES[answer["failure"]](answer["words"])
    return ANSWERS[answer["kind"]].model_validate(answer["result"])
