"""The live client against a server that misbehaves in every way known."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from autogen_core import CancellationToken
from autogen_core.models import AssistantMessage, SystemMessage, UserMessage
from pydantic import SecretStr

from astra_chat.agents.reply_errors import UnusableReply
from astra_chat.agents.turns import PlannerReply
from astra_chat.models import openai_client
from astra_chat.models.answer import Answer, require_usable
from astra_chat.models.openai_client import OpenAIClient
from astra_chat.models.openai_options import OpenAIOptions
from astra_vgpu.ground.errors import AstraError, BadInput, MissingDependency
from tests.astra_chat.fake_openai import Asked, FakeOpenAI, Reply, failed, in_order, said, serving

KEY = "key-of-this-test-1234567890"
GOOD = '{"reply": {"kind": "pass", "words": "enough"}}'


def ask(server: FakeOpenAI, json_output: Any = PlannerReply, **options: Any) -> Answer:
    """One question to the server."""
    given = {"model": "o4-mini", "base_url": server.url, "backoff_s": 0.01, "tries": 4, **options}

    async def once() -> Answer:
        client = OpenAIClient(OpenAIOptions.model_validate(given), SecretStr(KEY))
        try:
            answer = await client.create(
                [SystemMessage(content="be brief"), UserMessage(content="well?", source="user")],
                json_output=json_output,
            )
        finally:
            await client.close()
        assert isinstance(answer, Answer)
        return answer

    return asyncio.run(once())


def one(reply: Reply, **options: Any) -> tuple[Answer, Asked]:
    """What became of one reply, and the only request."""
    with serving(in_order(reply)) as server:
        answer = ask(server, **options)
    assert len(server.asked) == 1
    return answer, server.asked[0]


def failure(answer: Callable[[Asked], Reply], **options: Any) -> tuple[AstraError, int]:
    """How a question fails, and after how many requests."""
    with serving(answer) as server, pytest.raises(AstraError) as caught:
        ask(server, **options)
    assert "\n" not in str(caught.value) and KEY not in repr(caught.value)
    return caught.value, len(server.asked)


def test_what_is_sent() -> None:
    answer, asked = one(said(GOOD), reasoning_effort="high", max_completion_tokens=900)
    assert answer.content == GOOD and answer.finish_reason == "stop"
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body["model"] == "o4-mini"
    assert asked.body["reasoning_effort"] == "high"
    assert asked.body["max_completion_tokens"] == 900
    assert not {"temperature", "max_tokens", "tools", "timeout_s"} & set(asked.body)
    assert asked.body["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "well?"},
    ]


def test_a_typed_reply_is_asked_for_as_raw_response_format() -> None:
    _, asked = one(said(GOOD))
    form = asked.body["response_format"]
    assert form["type"] == "json_schema" and form["json_schema"]["strict"] is True
    assert form["json_schema"]["name"] == "PlannerReply"
    plan = form["json_schema"]["schema"]["$defs"]["Plan"]
    assert plan["required"][0] == "kind" and plan["additionalProperties"] is False


@pytest.mark.parametrize(("replies", "form"), [("json", {"type": "json_object"}), ("words", None)])
def test_servers_without_schemas(replies: str, form: object) -> None:
    _, asked = one(said(GOOD), replies=replies)
    assert asked.body.get("response_format") == form
    system = asked.body["messages"][0]
    assert system["role"] == "system" and system["content"].endswith("be brief")
    assert '"predicted_ratio"' in system["content"]
    assert len(asked.body["messages"]) == 2


def test_tokens_with_their_details() -> None:
    answer, _ = one(said(GOOD, usage=(500, 70, 448, 50)))
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (500, 70)
    assert (answer.cached_tokens, answer.reasoning_tokens) == (448, 50)


def test_a_server_that_counts_nothing() -> None:
    answer, _ = one(said(GOOD, usage=None))
    assert answer.usage.prompt_tokens == answer.cached_tokens == 0


@pytest.mark.parametrize(
    ("reply", "content", "finish", "refusal"),
    [
        (said('{"reply": {"ki', finish="length"), '{"reply": {"ki', "length", ""),
        (said(f"```json\n{GOOD}\n```"), f"```json\n{GOOD}\n```", "stop", ""),
        (said(None, refusal="I will not."), "", "stop", "I will not."),
        (said("half a", finish="content_filter"), "half a", "content_filter", ""),
        (said(None), "", "stop", ""),
        (said("no JSON"), "no JSON", "stop", ""),
        (said(GOOD, finish="something_new"), GOOD, "unknown", ""),
    ],
)
def test_nothing_of_a_bad_answer_is_lost(
    reply: Reply, content: str, finish: str, refusal: str
) -> None:
    answer, _ = one(reply)
    assert (answer.content, answer.finish_reason, answer.refusal) == (content, finish, refusal)
    assert answer.usage.completion_tokens == 20


def test_thinking_is_set_apart() -> None:
    answer, _ = one(said(f"<think>hm {{}}</think>\n{GOOD}"))
    assert answer.thought == "hm {}" and str(answer.content).strip() == GOOD
    answer, _ = one(said(GOOD, reasoning_content="aha"))
    assert answer.thought == "aha" and answer.content == GOOD


def test_answers_that_are_no_plain_text() -> None:
    """Parts in a list, tool calls and no text, half a character: what can be read is kept."""
    parts = [{"type": "text", "text": GOOD[:9]}, {"type": "image"}, GOOD[9:]]
    answer, _ = one(said(parts))  # type: ignore[arg-type]
    assert answer.content == GOOD
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    answer, _ = one(said(None, finish="tool_calls", tool_calls=[call]))
    assert (answer.content, answer.finish_reason) == ("", "unknown")
    answer, _ = one(said("a \ud83d b"))
    assert answer.content == "a ? b", "a transcript could not hold it"


def test_azures_older_interface() -> None:
    with serving(in_order(said(GOOD))) as server:
        address = server.url.replace("/v1", "/openai")
        ask(server, base_url=address, model="my-o4", api_version="2025-01-01-preview")
    asked = server.asked[0]
    assert asked.path == (
        "/openai/deployments/my-o4/chat/completions?api-version=2025-01-01-preview"
    )
    assert asked.headers["api-key"] == KEY and "authorization" not in asked.headers
    assert asked.body["response_format"]["type"] == "json_schema"


def test_azure_refuses_in_the_same_words() -> None:
    error, times = failure(in_order(failed(404, "DeploymentNotFound")), api_version="2025-01-01")
    assert isinstance(error, BadInput) and times == 1 and "DeploymentNotFound" in str(error)


def test_a_key_that_the_server_says_back_goes_no_further() -> None:
    answer, _ = one(said(f"your key is {KEY}", reasoning_content=KEY))
    assert KEY not in answer.model_dump_json()
    with pytest.raises(UnusableReply, match="contained the API key"):
        require_usable(answer)


def test_a_kernel_is_never_altered(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a placeholder as key, as servers that want none get it, kernels may say the same."""
    monkeypatch.setattr(f"{__name__}.KEY", "none")
    answer, _ = one(said('{"reply": "enum { none, x }; // none"}'))
    assert answer.content == '{"reply": "enum { none, x }; // none"}'


TIMEOUT_S = 1.5
"""Limit of a reply: late ones come much later, the others at once even on a busy machine."""
PASSING = [
    failed(429, "slow down", "rate_limit_exceeded"),
    failed(500),
    failed(503),
    failed(408),
    Reply("<html>bad gateway</html>", 502, kind="text/html"),
    Reply("<html>welcome</html>", kind="text/html"),
    Reply('{"choices": [{"ind'),
    Reply('{"error": {"message": "upstream is down"}}'),
    Reply('{"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": []}'),
    Reply("{}", delay_s=60),
    Reply(said(GOOD).body, drip_s=60),
    Reply(said(GOOD).body, lost=40),
    Reply(b'{"choices": [{"message": {"content": "\xff\xfe"}}]}'),
    Reply("[]"),
    Reply("null"),
    Reply('{"choices": [{"index": 0, "finish_reason": "stop"}]}'),
    Reply('{"choices": [{"index": 0, "message": null, "finish_reason": "stop"}]}'),
]


@pytest.mark.parametrize("reply", PASSING, ids=range(len(PASSING)))
def test_what_passes_is_tried_again(reply: Reply) -> None:
    with serving(in_order(reply, reply, said(GOOD))) as server:
        assert ask(server, timeout_s=TIMEOUT_S).content == GOOD
    assert len(server.asked) == 3


@pytest.mark.parametrize("reply", PASSING, ids=range(len(PASSING)))
def test_what_does_not_pass_ends_in_words(reply: Reply) -> None:
    error, times = failure(in_order(reply), tries=2, timeout_s=TIMEOUT_S)
    assert isinstance(error, MissingDependency) and times == 2
    assert "after 2 attempts" in str(error) and "127.0.0.1" in str(error)


def test_the_server_may_ask_for_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(openai_client.asyncio, "sleep", noted)
    with serving(in_order(failed(429, retry_after="17"), said(GOOD))) as server:
        ask(server)
    assert pauses == [17.0]


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (failed(429, "You exceeded your quota", "insufficient_quota"), MissingDependency, "quota"),
        (failed(401, f"Incorrect API key provided: {KEY[:8]}***"), MissingDependency, "HTTP 401"),
        (failed(403, f"{KEY} may not"), MissingDependency, "OPENAI_API_KEY"),
        (failed(404, "The model o9 does not exist"), BadInput, "The model o9 does not exist"),
        (failed(400, f"Unsupported value, {KEY}"), BadInput, "Unsupported value, [key]"),
        (failed(422, "sk-proj-abc***xyz"), BadInput, "[key]"),
    ],
)
def test_what_no_waiting_helps_is_said_at_once(
    reply: Reply, kind: type[AstraError], words: str
) -> None:
    error, times = failure(in_order(reply))
    assert isinstance(error, kind) and times == 1
    assert words in str(error) and KEY[:8] not in str(error)


@pytest.mark.parametrize("code", ["content_filter", "invalid_prompt"])
def test_a_prompt_that_a_filter_refuses_is_a_withheld_answer(code: str) -> None:
    answer, _ = one(failed(400, "flagged", code))
    assert answer.finish_reason == "content_filter" and answer.content == ""


def test_a_server_without_schemas_gets_a_hint() -> None:
    error, _ = failure(in_order(failed(400, "unknown field response_format")))
    assert isinstance(error, BadInput) and str(error).endswith("try replies=json")


def test_nobody_there() -> None:
    """An address of no machine: a name that is not resolved."""
    with (
        serving(in_order(said(GOOD))) as server,
        pytest.raises(MissingDependency, match="cannot reach http") as caught,
    ):
        ask(server, tries=2, base_url="http://nobody.invalid/v1")
    assert "after 2 attempts" in str(caught.value) and not server.asked


def test_a_cancelled_question_ends_at_once() -> None:
    async def cancelled(server: FakeOpenAI) -> None:
        options = OpenAIOptions(model="m", base_url=server.url)
        client, token = OpenAIClient(options, SecretStr(KEY)), CancellationToken()
        asking = asyncio.ensure_future(
            client.create([UserMessage(content="?", source="user")], cancellation_token=token)
        )
        while not server.asked:
            await asyncio.sleep(0.01)
        token.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await client.close()
        assert server.silent, "it did not wait for the reply"

    with serving(in_order(Reply("{}", delay_s=60))) as server:
        asyncio.run(cancelled(server))


def test_a_conversation_goes_over_the_wire_as_it_is() -> None:
    async def talk(server: FakeOpenAI) -> None:
        client = OpenAIClient(OpenAIOptions(model="m", base_url=server.url), SecretStr(KEY))
        messages = [
            UserMessage(content="a", source="user"),
            AssistantMessage(content="b", source="planner"),
            UserMessage(content="c", source="user"),
        ]
        pieces = [piece async for piece in client.create_stream(messages)]
        assert len(pieces) == 1 and isinstance(pieces[0], Answer)
        await client.close()

    with serving(in_order(said("d"))) as server:
        asyncio.run(talk(server))
    roles = [message["role"] for message in server.asked[0].body["messages"]]
    assert roles == ["user", "assistant", "user"] and server.asked[0].messages == ["a", "b", "c"]


def test_the_client_keeps_no_key_to_dump() -> None:
    client = OpenAIClient(OpenAIOptions(model="m"), SecretStr(KEY))
    assert KEY not in repr(client._raw_config) + repr(client._key)


def test_a_refused_connection_on_this_machine_fails_at_once() -> None:
    """Nothing listens there: the waits between tries would change nothing."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        for host in ("127.0.0.1", "localhost"):
            options = {"model": "m", "base_url": f"http://{host}:{port}/v1", "backoff_s": 3600.0}
            client = OpenAIClient(OpenAIOptions.model_validate(options), SecretStr(KEY))

            async def once(client: OpenAIClient = client) -> None:
                async with asyncio.timeout(60):
                    await client.create([UserMessage(content="well?", source="user")])

            with pytest.raises(MissingDependency, match=f"nothing listens at http://{host}:{port}"):
                asyncio.run(once())
