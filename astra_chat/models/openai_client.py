"""AutoGen's OpenAI client with typed replies as raw `response_format`, and retries of our own.

Imports the OpenAI SDK, which is slow: only live runs load this module.

A server's error is passing, and then asked again, or says what the user can do about it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, TypeVar, cast

import openai
from autogen_core import CancellationToken
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    LLMMessage,
    RequestUsage,
    SystemMessage,
)
from autogen_ext.models.openai import OpenAIChatCompletionClient
from openai import AsyncAzureOpenAI
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from pydantic import BaseModel, SecretStr

from astra_chat.agents.turns import Kernel, Position
from astra_chat.models.answer import Answer
from astra_chat.models.layer import JsonOutput, ToolChoice, Tools
from astra_chat.models.offline import MODEL_INFO, NO_USAGE
from astra_chat.models.openai_options import MASKED_CHARACTERS, OpenAIOptions, key_of, options_of
from astra_chat.models.providers import what_to_do
from astra_chat.models.schema import in_words, response_format
from astra_chat.models.server_error import FAILURES, NoAnswer, ServerError, read_error
from astra_chat.models.spec import ModelSpec, Role
from astra_chat.spending.prices import Price
from astra_chat.tools.types import Basis
from astra_vgpu.ground.errors import AstraError, BadInput, MissingDependency

logger = logging.getLogger(__name__)

MOST_CHARACTERS_PER_TOKEN = 8
"""A token of English or of code has three to five: a server that counts fewer read less."""
FINISHED = {"stop": "stop", "length": "length", "content_filter": "content_filter"}

REPEATED_KEY = "(the reply contained the API key and was discarded: answer without it)"

WITHHELD = Answer(finish_reason="content_filter", content="", usage=NO_USAGE, cached=False)
T = TypeVar("T")
LONGEST_WAIT_S = 30.0
LONGEST_ASKED_WAIT_S = 120.0
"""A server that asks for a longer pause is not waited for that long."""


class OpenAIClient(OpenAIChatCompletionClient):
    """One role's client. AutoGen renders the messages; the request, its retries and the reading of
    the answer are ours, since AutoGen loses refusals, token details and the text of bad replies.

    Raises BadInput and MissingDependency as `explained` does. Lives in one event loop.
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
        if self._options.of.request:
            extra["extra_body"] = dict(self._options.of.request)
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
        if completion is None:
            return WITHHELD
        answer = self._read(completion)
        self._warn(answer, sum(len(str(message.content)) for message in messages))
        return answer

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
            error = (found.model_extra or {}).get("error")
            raise NoAnswer(str(error or "it contains no choices"), error)
        choice = found.choices[0]
        # OpenRouter: the model's own server failed on the way.
        if error := (choice.model_extra or {}).get("error"):
            raise NoAnswer(str(error), error)
        if getattr(choice, "message", None) is None:
            raise NoAnswer("its first choice contains no message")
        return found

    def _warn(self, answer: Answer, asked: int) -> None:
        """Warn of an answer that was cut off, and of a prompt of `asked` characters that was."""
        options, counted = self._options, answer.usage.prompt_tokens
        at = f"{options.model} at {options.base_url}"
        if answer.finish_reason == "length":
            limit = options.of.limit or "max_completion_tokens"
            logger.warning(
                "%s was cut off after %d tokens: raise %s=..., or lower reasoning_effort",
                at,
                answer.usage.completion_tokens,
                limit,
            )
        if options.of.cuts_prompts and 0 < counted < asked / MOST_CHARACTERS_PER_TOKEN:
            logger.warning(
                "%s read only %d tokens of a prompt of %d characters: %s",
                at,
                counted,
                asked,
                options.of.longer_context,
            )

    def _read(self, completion: ChatCompletion) -> Answer:
        choice = completion.choices[0]
        said = choice.message
        thought, text = _apart(_text(said.content))
        hidden = _text(_more(said, "reasoning_content") or _more(said, "reasoning"))
        usage = completion.usage
        prompt = usage.prompt_tokens_details if usage else None
        prompt_tokens, spoken_tokens, thought_tokens = _tokens(usage)
        refusal = _text(said.refusal)
        if holds_key(text, self._key):  # masked in a kernel it would be another kernel
            text, refusal = "", REPEATED_KEY
        return Answer(
            finish_reason=cast(Any, FINISHED.get(choice.finish_reason or "", "unknown")),
            content=_whole(text),
            thought=self._clean(hidden or thought) or None,
            refusal=self._clean(refusal),
            usage=RequestUsage(prompt_tokens=prompt_tokens, completion_tokens=spoken_tokens),
            cached_tokens=(prompt.cached_tokens or 0) if prompt else 0,
            reasoning_tokens=thought_tokens,
            cached=False,
        )

    def _clean(self, text: str) -> str:
        """Without the key."""
        return without_key(_whole(text), self._key)


def _more(said: ChatCompletionMessage, name: str) -> Any:
    """A field that OpenAI's protocol lacks."""
    return (said.model_extra or {}).get(name)


def _tokens(usage: CompletionUsage | None) -> tuple[int, int, int]:
    """The tokens of the prompt, of the whole answer, and of its thoughts. Google counts thoughts in
    the total alone, and they are paid for."""
    if usage is None:
        return 0, 0, 0
    prompt, spoken = usage.prompt_tokens or 0, usage.completion_tokens or 0
    details = usage.completion_tokens_details
    thought = (details.reasoning_tokens or 0) if details else 0
    beside = max((usage.total_tokens or 0) - prompt - spoken, 0) if prompt else 0
    return prompt, spoken + beside, max(thought, beside)


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


def wait_s(number: int, first_s: float, asked_s: float | None = None) -> float:
    """Seconds before try `number` + 1: what the server asked for, else doubling from `first_s`.

    A quarter of it is random, so that several runs do not come back at the same moment.
    """
    if asked_s is not None:
        return min(max(asked_s, 0.0), LONGEST_ASKED_WAIT_S)
    return min(first_s * 2.0 ** (number - 1), LONGEST_WAIT_S) * random.uniform(0.75, 1.25)


async def persist(
    ask: Callable[[], Awaitable[T]],
    tries: int,
    first_s: float,
    passing: Callable[[Exception], bool],
    asked_s: Callable[[Exception], float | None],
    said: Callable[[Exception], str] = str,
) -> T:
    """Await `ask` until it answers, at most `tries` times, with growing waits between them.

    An error that is not `passing`, or the last one, is raised as it is; of the others `said` is
    logged.
    """
    for number in range(1, tries):
        try:
            return await ask()
        except Exception as error:
            if not passing(error):
                raise
            pause = wait_s(number, first_s, asked_s(error))
            logger.warning(
                "%s; try %d of %d in %.1f s",
                said(error),
                number + 1,
                tries,
                pause,
            )
        await asyncio.sleep(pause)
    return await ask()


LONGEST_WORDS = 400


def passing(error: Exception) -> bool:
    """Whether the same request may succeed a little later."""
    if refused_here(error):
        return False
    found = read_error(error)
    return found.passes if found is not None else isinstance(error, FAILURES)


def refused_here(error: Exception) -> bool:
    """Whether nothing listens at an address of this machine: a server that is not there."""
    if not isinstance(error, openai.APIConnectionError):
        return False
    return _is_loopback(error.request.url.host) and _holds_refusal(error)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _holds_refusal(error: BaseException | None) -> bool:
    """The client wraps the system's error, one for each address that it tried."""
    if error is None or isinstance(error, ConnectionRefusedError):
        return error is not None
    if isinstance(error, BaseExceptionGroup):
        return any(map(_holds_refusal, error.exceptions))
    return _holds_refusal(error.__cause__ or error.__context__)


def withheld(error: Exception) -> bool:
    """Whether a filter took offence at the prompt: words may help, so it is no failure."""
    found = read_error(error)
    return found is not None and found.kind == "flagged"


def asked_wait_s(error: Exception) -> float | None:
    """Seconds that the server asked to wait; None where it did not."""
    found = read_error(error)
    return None if found is None else found.wait_s


def explained(error: Exception, options: OpenAIOptions, key: SecretStr) -> AstraError:
    """The error as one line that says what to do. It never holds the key."""
    at = f"{options.model} at {options.base_url}"
    if isinstance(error, openai.APITimeoutError | TimeoutError):
        return MissingDependency(
            f"{at} did not answer within {options.timeout_s:g} s, {_times(options)}:"
            " raise timeout_s=..., or check the server"
        )
    if refused_here(error):
        return MissingDependency(
            f"nothing listens at {options.base_url}: start the server, or correct base_url"
        )
    if isinstance(error, openai.APIConnectionError):
        return MissingDependency(
            f"cannot reach {options.base_url}, {_times(options)}: is the server up?"
        )
    found = read_error(error)
    if found is not None:
        return _explained(found, at, options, scrubbed(found.message, key))
    said = scrubbed(str(error), key)
    return MissingDependency(
        f"{at} did not answer with a chat completion, {_times(options)}: {said}"
    )


def in_short(error: Exception, options: OpenAIOptions) -> str:
    """Which model's server failed and how, without its own words."""
    found = read_error(error)
    if isinstance(error, openai.APITimeoutError | TimeoutError):
        how = f"did not answer within {options.timeout_s:g} s"
    elif isinstance(error, openai.APIConnectionError):
        how = "could not be reached, or closed the connection"
    elif found is not None:
        how = f"answered HTTP {found.status}"
    else:
        how = "did not answer with a chat completion"
    return f"{options.model} at {options.base_url} {how}"


def _explained(found: ServerError, at: str, options: OpenAIOptions, said: str) -> AstraError:
    status, there = f"HTTP {found.status}", options.of
    match found.kind:
        case "key":  # the server's own words often repeat a part of the key
            return MissingDependency(
                f"{at} refuses the key in {options.key_env} ({status}): set a valid key"
            )
        case "quota":
            return MissingDependency(f"{at}: the account has no quota or credit left: {said}")
        case "unknown":
            advice = what_to_do(there.unknown_model, options.model)
            return BadInput(f"{at} does not exist ({status}): {said}; {advice}")
        case "too_long":
            return BadInput(
                f"{at}: the prompt does not fit in the model's context ({status}): {said};"
                f" {there.longer_context}"
            )
        case "busy":
            asked = f"; the server asks for a pause of {found.wait_s:.0f} s" if found.wait_s else ""
            return MissingDependency(
                f"{at} limits the rate of requests ({status}), {_times(options)}{asked}: {said}"
            )
        case "fails":
            return MissingDependency(f"{at} returned {status}, {_times(options)}: {said}")
        case "refused" | "flagged":
            format_named = "response_format" in said or "json_schema" in said
            hint = "; try replies=json" if format_named else ""
            return BadInput(f"{at} refuses the request ({status}): {said}{hint}")


def _times(options: OpenAIOptions) -> str:
    return "after one attempt" if options.tries == 1 else f"after {options.tries} attempts"


def scrubbed(text: str, key: SecretStr) -> str:
    """The text in one line, cut, without the key or anything that looks like one."""
    text = re.sub(r"\b(sk-|AIza)[\w*-]{4,}", "[key]", without_key(text, key))
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_WORDS else f"{text[:LONGEST_WORDS]}..."


def without_key(text: str, key: SecretStr) -> str:
    """The text, should a server have put the key into it. A short key is not masked: it may be a
    common word."""
    return text.replace(key.get_secret_value(), "[key]") if holds_key(text, key) else text


def holds_key(text: str, key: SecretStr) -> bool:
    """Whether a key that is long enough to be one occurs in the text."""
    secret = key.get_secret_value()
    return len(secret) >= MASKED_CHARACTERS and secret in text


# Live models: OpenAI's, and those of any server that speaks its protocol.


class OpenAIModels:
    """Raises BadInput for an option that is off and MissingDependency for a missing key at once,
    before anything is spent."""

    def __init__(self, name: str, roles: Mapping[Role, ModelSpec]) -> None:
        self.name = name
        self._options = {role: options_of(role, spec) for role, spec in roles.items()}
        self._keys = {role: key_of(options) for role, options in self._options.items()}
        self._open: list[ChatCompletionClient] = []

    def client(self, role: Role) -> ChatCompletionClient:
        """A client of its own, for the running event loop."""
        client = OpenAIClient(self._options[role], self._keys[role])
        self._open.append(client)
        return client

    def described(self, role: Role) -> str:
        return self._options[role].described

    def price(self, role: Role) -> Price | None:
        return self._options[role].price

    def expected(self, kernel: Kernel, place: Position, basis: Basis = "measured") -> str | None:
        """None: a live model predicts only its plan's ratio."""
        return None

    async def close(self) -> None:
        while self._open:
            await self._open.pop().close()
