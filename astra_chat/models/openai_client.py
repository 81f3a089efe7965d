"""AutoGen's OpenAI client with typed replies as raw `response_format`, and retries of our own.

Imports the OpenAI SDK, which is slow: only live runs load this module.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, cast

from autogen_core import CancellationToken
from autogen_core.models import (
    CreateResult,
    LLMMessage,
    RequestUsage,
    SystemMessage,
)
from autogen_ext.models.openai import OpenAIChatCompletionClient
from openai import AsyncAzureOpenAI
from openai.types.chat import ChatCompletion
from pydantic import BaseModel, SecretStr

from astra_chat.models.answer import Answer
from astra_chat.models.layer import JsonOutput, ToolChoice, Tools
from astra_chat.models.offline import MODEL_INFO, NO_USAGE
from astra_chat.models.openai_errors import (
    FAILURES,
    NoAnswer,
    asked_wait_s,
    explained,
    holds_key,
    in_short,
    passing,
    withheld,
    without_key,
)
from astra_chat.models.openai_options import OpenAIOptions
from astra_chat.models.retry import persist
from astra_chat.models.schema import in_words, response_format

FINISHED = {"stop": "stop", "length": "length", "content_filter": "content_filter"}

REPEATED_KEY = "(the reply held the API key and was dropped: answer without it)"

WITHHELD = Answer(finish_reason="content_filter", content="", usage=NO_USAGE, cached=False)


class OpenAIClient(OpenAIChatCompletionClient):
    """One role's client. AutoGen renders the messages; the request, its retries and the reading of
    the answer are ours, since AutoGen loses refusals, token details and the text of bad replies.

    Raises BadInput and MissingDependency as openai_errors says. Lives in one event loop.
    """

    def __init__(self, options: OpenAIOptions, key: SecretStr) -> None:
        super().__init__(
            model=options.model,
            base_url=options.base_url,
            api_key=key.get_secret_value(),
            timeout=options.timeout_s,
            max_retries=0,
            # AutoGen knows few names; what we send depends on our own options alone.
            model_info=MODEL_INFO,
            include_name_in_message=False,
        )
        # AutoGen keeps its arguments, the key among them, to dump them as configuration.
        self._raw_config = {}
        self._options, self._key = options, key
        if options.api_version is not None:
            self._client = AsyncAzureOpenAI(
                base_url=options.base_url,
                api_key=key.get_secret_value(),
                api_version=options.api_version,
                timeout=options.timeout_s,
                max_retries=0,
            )

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
        """Ask, and ask again where that helps. The agents use no tools, so none are sent."""
        if tools:
            raise ValueError("this client sends no tools")
        extra = {**self._options.wire(), **(extra_create_args or {})}
        messages = [*messages]
        if isinstance(json_output, type):
            messages = [*self._schema_in_words(json_output), *messages]
            extra |= self._format(json_output)
            json_output = None
        params = self._process_create_args(messages, (), "auto", json_output, extra)
        asking = asyncio.ensure_future(self._persist(params.messages, params.create_args))
        if cancellation_token is not None:
            cancellation_token.link_future(asking)
        completion = await asking
        return WITHHELD if completion is None else self._read(completion)

    async def create_stream(
        self, messages: Sequence[LLMMessage], **rest: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        """The whole answer as one piece: half a JSON object is useless."""
        yield await self.create(messages, **rest)

    def _schema_in_words(self, reply: type[BaseModel]) -> list[LLMMessage]:
        """Before the role's own instructions, with which AutoGen joins it: both stay the same from
        turn to turn, so servers can cache them."""
        return [] if self._options.replies == "schema" else [SystemMessage(content=in_words(reply))]

    def _format(self, reply: type[BaseModel]) -> dict[str, Any]:
        match self._options.replies:
            case "schema":
                return {"response_format": response_format(reply)}
            case "json":
                return {"response_format": {"type": "json_object"}}
            case "words":
                return {}

    async def _persist(
        self, messages: list[Any], arguments: dict[str, Any]
    ) -> ChatCompletion | None:
        """None where the server withholds an answer."""
        options = self._options
        try:
            return await persist(
                lambda: self._request(messages, arguments),
                tries=options.tries,
                first_s=options.backoff_s,
                passing=passing,
                asked_s=asked_wait_s,
                said=lambda error: in_short(error, options),
            )
        except FAILURES as error:
            if withheld(error):
                return None
            raise explained(error, options, self._key) from None

    async def _request(self, messages: list[Any], arguments: dict[str, Any]) -> ChatCompletion:
        # The SDK's own limit counts from byte to byte, and some servers send blanks.
        async with asyncio.timeout(self._options.timeout_s):
            found = await self._client.chat.completions.create(
                messages=messages, stream=False, **arguments
            )
        # A proxy's web page comes back as text; some servers send an error with status 200.
        if not isinstance(found, ChatCompletion):
            raise NoAnswer(str(found)[:200])
        if not found.choices:
            raise NoAnswer(str((found.model_extra or {}).get("error", "it holds no choices")))
        if getattr(found.choices[0], "message", None) is None:
            raise NoAnswer("its first choice holds no message")
        return found

    def _read(self, completion: ChatCompletion) -> Answer:
        choice = completion.choices[0]
        said = choice.message
        thought, text = _apart(_text(said.content))
        hidden = (said.model_extra or {}).get("reasoning_content")
        usage = completion.usage
        prompt = usage.prompt_tokens_details if usage else None
        spoken = usage.completion_tokens_details if usage else None
        refusal = _text(said.refusal)
        if holds_key(text, self._key):  # masked in a kernel it would be another kernel
            text, refusal = "", REPEATED_KEY
        return Answer(
            finish_reason=cast(Any, FINISHED.get(choice.finish_reason or "", "unknown")),
            content=_whole(text),
            thought=self._clean(str(hidden or thought)) or None,
            refusal=self._clean(refusal),
            usage=RequestUsage(
                prompt_tokens=(usage.prompt_tokens or 0) if usage else 0,
                completion_tokens=(usage.completion_tokens or 0) if usage else 0,
            ),
            cached_tokens=(prompt.cached_tokens or 0) if prompt else 0,
            reasoning_tokens=(spoken.reasoning_tokens or 0) if spoken else 0,
            cached=False,
        )

    def _clean(self, text: str) -> str:
        """Without the key."""
        return without_key(_whole(text), self._key)


def _whole(text: str) -> str:
    """Without half characters, which no file takes."""
    return text.encode(errors="replace").decode()


def _text(content: Any) -> str:
    """Some servers send a list of parts where the protocol has one text, or something else."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if content is None else str(content)
    parts = (part.get("text") if isinstance(part, dict) else part for part in content)
    return "".join(part for part in parts if isinstance(part, str))


def _apart(content: str) -> tuple[str, str]:
    """Thought and text of a model whose server leaves its thinking in the text."""
    head, end, rest = content.partition("</think>")
    if not end or not head.lstrip().startswith("<think>"):
        return "", content
    return head.lstrip().removeprefix("<think>").strip(), rest
