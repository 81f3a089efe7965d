"""A client between a role and its model that records or plays back replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage
from autogen_core.tools import Tool
from pydantic import TypeAdapter

from astra_chat.models.answer import Answer
from astra_chat.models.layer import JsonOutput, Layer
from astra_chat.models.recording import Json, Recording
from astra_chat.models.spec import Role
from astra_chat.tools.text import one_line
from astra_vgpu.ground.errors import AstraError, BadInput, MissingDependency

FAILURES: dict[str, type[AstraError]] = {c.__name__: c for c in (BadInput, MissingDependency)}
ANSWERS: dict[str, type[CreateResult]] = {c.__name__: c for c in (Answer, CreateResult)}
MESSAGE: TypeAdapter[LLMMessage] = TypeAdapter(LLMMessage)


class RecordingClient(Layer):
    """Failures are recorded too: a run that ended with one ends with it again when played back."""

    def __init__(
        self, inner: ChatCompletionClient, role: Role, model: str, recording: Recording
    ) -> None:
        """`model`: what plays the role, with everything that shapes its answers."""
        super().__init__(inner)
        self._role, self._model, self._recording = role, model, recording

    async def create(self, messages: Sequence[LLMMessage], **rest: Any) -> CreateResult:
        """The recorded answer, or the model's own, which is recorded."""
        choice = rest.get("tool_choice", "auto")
        request = {
            "model": self._model,
            "messages": [MESSAGE.dump_python(one, mode="json") for one in messages],
            "reply": _schema(rest.get("json_output")),
            "tools": [
                one.schema if isinstance(one, Tool) else one for one in rest.get("tools", ())
            ],
            "tool_choice": choice.name if isinstance(choice, Tool) else choice,
            "extra": dict(rest.get("extra_create_args") or {}),
        }
        place = self._recording.place(self._role, request)
        recorded = self._recording.recorded(place)
        if recorded is not None:
            return _played(recorded, self._recording)
        try:
            result = await super().create(messages, **rest)
        except tuple(FAILURES.values()) as error:
            self._recording.keep(place, {"failure": type(error).__name__, "words": str(error)})
            raise
        kind = "Answer" if isinstance(result, Answer) else "CreateResult"
        self._recording.keep(place, {"kind": kind, "result": result.model_dump(mode="json")})
        return result


def _schema(json_output: JsonOutput) -> Any:
    return json_output.model_json_schema() if isinstance(json_output, type) else json_output


def _played(answer: Json, recording: Recording) -> CreateResult:
    """Raises a recorded failure, and BadInput for an answer that cannot be read."""
    try:
        if "failure" in answer:
            failure: AstraError = FAILURES[answer["failure"]](str(answer["words"]))
        else:
            return _countable(ANSWERS[answer["kind"]].model_validate(answer["result"]))
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{recording.path}: cannot read an answer: {one_line(str(error))}") from None
    raise failure


def _countable(result: CreateResult) -> CreateResult:
    """Raises ValueError for impossible token counts: negative ones would increase a budget."""
    counts = [result.usage.prompt_tokens, result.usage.completion_tokens]
    if isinstance(result, Answer):
        counts += [result.cached_tokens, result.reasoning_tokens]
    if not all(0 <= count <= 2**53 for count in counts):
        raise ValueError(f"token counts {counts}")
    return result
