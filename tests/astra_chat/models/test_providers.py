"""Each provider's server, as its documentation describes it, on loopback: what is sent, what its
errors say, and how its tokens are counted. No provider was asked with a key."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from autogen_core.models import AssistantMessage, LLMMessage, SystemMessage, UserMessage

from astra_chat.agents.turns import PlannerReply
from astra_chat.models.answer import Answer
from astra_chat.models.openai_client import OpenAIClient
from astra_chat.models.openai_options import OpenAIOptions, key_of, options_of
from astra_chat.models.providers import PROVIDERS
from astra_chat.models.spec import ModelSpec, parse
from astra_vgpu.ground.errors import AstraError, BadInput, MissingDependency
from tests.astra_chat.fake_openai import Asked, Reply, in_order, said, serving

KEY = "key-of-a-provider-1234567890"
GOOD = '{"reply": {"kind": "pass", "words": "enough"}}'
CHAT: tuple[LLMMessage, ...] = (
    SystemMessage(content="be brief"),
    UserMessage(content="well?", source="user"),
    AssistantMessage(content="no", source="planner"),
    UserMessage(content="again", source="user"),
)
OTHERS = [name for name in PROVIDERS if name != "openai"]


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://nobody.invalid/v1")
    for one in PROVIDERS.values():
        monkeypatch.setenv(one.key_env, KEY)


def options(provider: str, /, **given: str) -> OpenAIOptions:
    return options_of("coder", ModelSpec(provider, PROVIDERS[provider].example, given))


def ask(
    provider: str,
    answer: Callable[[Asked], Reply],
    chat: tuple[LLMMessage, ...] = CHAT,
    **given: str,
) -> tuple[Answer, list[Asked]]:
    """One question to a provider's server, and what the server was asked."""
    with serving(answer) as server:
        ours = options(provider, base_url=server.url, backoff_s="0.01", tries="2", **given)

        async def once() -> Answer:
            client = OpenAIClient(ours, key_of(ours))
            try:
                found = await client.create(chat, json_output=PlannerReply)
            finally:
                await client.close()
            assert isinstance(found, Answer)
            return found

        return asyncio.run(once()), server.asked


def error(status: int, body: Any, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(body if isinstance(body, str) else json.dumps(body), status, named)


def anthropic(status: int, kind: str, message: str, **headers: str) -> Reply:
    return error(status, {"error": {"type": kind, "message": message}}, **headers)


def google(status: int, message: str, kind: str, *details: dict[str, Any]) -> Reply:
    """A list with one error in it, which OpenAI's SDK does not unwrap."""
    inner = {"code": status, "message": message, "status": kind, "details": list(details)}
    return error(status, [{"error": inner}])


def openrouter(status: int, message: str, sent: int | None = None, **metadata: Any) -> Reply:
    """The code stands in the body; with HTTP 200 where a model's own server failed."""
    inner = {"code": status, "message": message, "metadata": metadata}
    return error(sent or status, {"error": inner})


def ollama(status: int, message: str, kind: str = "api_error") -> Reply:
    return error(status, {"error": {"message": message, "type": kind, "param": None, "code": None}})


def vllm(status: int, message: str, kind: str) -> Reply:
    return error(
        status, {"object": "error", "message": message, "type": kind, "param": None, "code": status}
    )


def new_vllm(status: int, message: str, kind: str) -> Reply:
    return error(status, {"error": {"message": message, "type": kind, "code": status}})


@pytest.mark.parametrize("name", OTHERS)
def test_a_preset_is_address_key_and_form(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI's own variables name no other provider's server and hold no key of it."""
    there, ours = PROVIDERS[name], options(name)
    assert (ours.base_url, ours.key_env, ours.replies) == (
        there.base_url,
        there.key_env,
        there.replies,
    )
    assert ours.described.startswith(f"{name}:")
    monkeypatch.delenv(there.key_env)
    if there.key_needed:
        with pytest.raises(MissingDependency, match=f"set {there.key_env} in the environment"):
            key_of(ours)
    else:
        assert key_of(ours).get_secret_value() == "EMPTY"
    with pytest.raises(BadInput, match=f"names no model: for example {name}:{there.example}"):
        parse(name)


@pytest.mark.parametrize("name", OTHERS)
def test_what_each_server_is_sent(name: str) -> None:
    """One system message, first; the schema as this server takes it; the limit by its name."""
    _, (asked,) = ask(name, in_order(said(GOOD)), max_completion_tokens="900")
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body["model"] == PROVIDERS[name].example
    roles = [message["role"] for message in asked.body["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert asked.messages[0].endswith("be brief")
    form = {"schema": "json_schema", "json": "json_object"}.get(PROVIDERS[name].replies)
    assert asked.body.get("response_format", {}).get("type") == form
    assert ("predicted_ratio" in asked.messages[0]) is (form != "json_schema")
    limit = "max_tokens" if name in ("ollama", "openrouter") else "max_completion_tokens"
    sent = asked.body.keys() - {"messages", "model", "response_format", "stream", "provider"}
    assert sent == {limit} and asked.body[limit] == 900
    requires = {"require_parameters": True} if name == "openrouter" else None
    assert asked.body.get("provider") == requires


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("anthropic", {"reasoning_effort": "high"}, "anthropic ignores reasoning_effort: leave it"),
        ("anthropic", {"temperature": "1.5"}, "temperature: must be at most 1 with anthropic"),
        ("ollama", {"service_tier": "flex"}, "ollama ignores service_tier"),
        (
            "vllm",
            {"max_tokens": "9", "max_completion_tokens": "9"},
            "set the same limit: give only one of them",
        ),
        ("google", {"max_token": "9"}, "no option 'max_token'; did you mean max_tokens?"),
        ("google", {"provider": "openai"}, "no option 'provider'; there is base_url"),
    ],
)
def test_what_a_provider_would_drop_is_refused(
    name: str, given: dict[str, str], words: str
) -> None:
    with pytest.raises(BadInput) as caught:
        options(name, **given)
    assert words in str(caught.value) and str(caught.value).startswith("--models, coder: ")


def test_no_key_goes_to_another_providers_address() -> None:
    mixed = "anthropic:a,coder=google:b"
    assert parse(mixed)["coder"].kind == "google"
    assert parse(f"{mixed},coder.base_url=http://h/v1")["coder"].options
    with pytest.raises(BadInput, match="would get the keys of all of them"):
        parse(f"{mixed},base_url=http://h/v1")


RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.02s"}
EXAMPLES = {name: one.example for name, one in PROVIDERS.items()}
FAILURES: list[tuple[str, Reply, type[AstraError], str, int]] = [
    # a refused key
    ("anthropic", anthropic(401, "authentication_error", "invalid x-api-key"), MissingDependency,
     "refuses the key in ANTHROPIC_API_KEY (HTTP 401): set a valid key", 1),
    ("google", google(400, "API key not valid. Please pass a valid API key.", "INVALID_ARGUMENT"),
     MissingDependency, "refuses the key in GEMINI_API_KEY (HTTP 400)", 1),
    ("openrouter", openrouter(401, "User not found."), MissingDependency,
     "refuses the key in OPENROUTER_API_KEY", 1),
    ("vllm", error(401, {"error": "Unauthorized"}), MissingDependency,
     "refuses the key in VLLM_API_KEY", 1),
    # no credit
    ("anthropic", anthropic(400, "invalid_request_error", "Your credit balance is too low."),
     MissingDependency, "no quota or credit left: Your credit balance", 1),
    ("openrouter", openrouter(402, "Insufficient credits"), MissingDependency, "credit left", 1),
    # an unknown model
    ("anthropic", anthropic(404, "not_found_error", "model: claude-x"), BadInput,
     "does not exist (HTTP 404): model: claude-x; see the provider's list", 1),
    ("google", google(404, "models/x is not found for API version v1main", "NOT_FOUND"), BadInput,
     "does not exist (HTTP 404): models/x is not found", 1),
    ("openrouter", openrouter(400, "x is not a valid model ID"), BadInput,
     "not a valid model ID; see openrouter.ai/models", 1),
    ("openrouter", openrouter(404, "No endpoints found that can handle the parameters."), BadInput,
     "replies=words", 1),
    ("ollama", ollama(404, 'model "x" not found, try pulling it first', "not_found_error"),
     BadInput, "fetch it with: ollama pull qwen3-coder:30b", 1),
    ("vllm", vllm(404, "The model `x` does not exist.", "NotFoundError"), BadInput,
     "The model `x` does not exist.; use the name of the model", 1),
    # a prompt that is too long
    ("anthropic", anthropic(400, "invalid_request_error", "prompt is too long: 9 tokens > 8"),
     BadInput, "does not fit in the model's context (HTTP 400): prompt is too long", 1),
    ("google", google(400, "The input token count (9) exceeds the maximum number of tokens allowed"
                           " (8).", "INVALID_ARGUMENT"), BadInput, "does not fit in", 1),
    ("openrouter", openrouter(400, "This endpoint's maximum context length is 8 tokens"), BadInput,
     "choose a model with a longer context", 1),
    ("ollama", ollama(400, "the request exceeds the available context size (4096)"), BadInput,
     "a larger OLLAMA_CONTEXT_LENGTH", 1),
    ("vllm", vllm(400, "This model's maximum context length is 8 tokens. However, you requested 9",
                  "BadRequestError"), BadInput, "a larger --max-model-len", 1),
    ("vllm", new_vllm(400, "This model's maximum context length is 8 tokens.", "BadRequestError"),
     BadInput, "a larger --max-model-len", 1),
    # too many requests, in two tries
    ("anthropic", anthropic(429, "rate_limit_error", "too many", retry_after="0.02"),
     MissingDependency, "limits the rate of requests (HTTP 429), after 2 attempts", 2),
    ("google", google(429, "Resource has been exhausted.", "RESOURCE_EXHAUSTED", RETRY),
     MissingDependency, "limits the rate of requests (HTTP 429)", 2),
    ("openrouter", openrouter(429, "Rate limited"), MissingDependency, "limits the rate", 2),
    # a server that fails; OpenRouter says so with HTTP 200
    ("anthropic", anthropic(529, "overloaded_error", "Overloaded"), MissingDependency,
     "returned HTTP 529, after 2 attempts: Overloaded", 2),
    ("openrouter", openrouter(502, "Provider returned error", 200, raw="out of memory"),
     MissingDependency, "returned HTTP 502, after 2 attempts: Provider returned error: out of", 2),
    ("openrouter", openrouter(400, "no such thing", 200), BadInput,
     "refuses the request (HTTP 400): no such thing", 1),
]  # fmt: skip


@pytest.mark.parametrize("failure", FAILURES, ids=range(len(FAILURES)))
def test_each_providers_errors_are_one_clear_line(
    failure: tuple[str, Reply, type[AstraError], str, int],
) -> None:
    name, reply, kind, words, requests = failure
    seen: list[Asked] = []

    def answer(asked: Asked) -> Reply:
        seen.append(asked)
        return reply

    with pytest.raises(AstraError) as caught:
        ask(name, answer)
    assert type(caught.value) is kind and words in str(caught.value), str(caught.value)
    assert "\n" not in str(caught.value) and len(seen) == requests
    assert EXAMPLES[name] in str(caught.value) or "key" in words


def test_googles_pause_stands_in_the_body(caplog: pytest.LogCaptureFixture) -> None:
    busy = google(429, "Resource has been exhausted.", "RESOURCE_EXHAUSTED", RETRY)
    answer, asked = ask("google", in_order(busy, said(GOOD)))
    assert answer.content == GOOD and len(asked) == 2
    assert "answered HTTP 429; try 2 of 2 in 0.0 s" in caplog.text


def test_openrouter_flags_a_prompt_with_403() -> None:
    flagged = openrouter(403, "Input flagged", reasons=["violence"], flagged_input="kill")
    answer, _ = ask("openrouter", in_order(flagged))
    assert answer.finish_reason == "content_filter" and answer.content == ""


def test_a_model_that_fails_on_the_way_is_asked_again() -> None:
    """OpenRouter puts the error into the choice, beside half an answer."""
    broken = json.loads(str(said("half", finish="error").body))
    broken["choices"][0]["error"] = {"code": 502, "message": "the model's server is gone"}
    answer, asked = ask("openrouter", in_order(Reply(json.dumps(broken)), said(GOOD)))
    assert answer.content == GOOD and len(asked) == 2


def test_thoughts_that_google_counts_in_the_total_alone() -> None:
    counted = json.loads(str(said(GOOD).body))
    counted["usage"] = {"prompt_tokens": 20, "completion_tokens": 151, "total_tokens": 553}
    answer, _ = ask("google", in_order(Reply(json.dumps(counted))))
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (20, 533)
    assert answer.reasoning_tokens == 382


@pytest.mark.parametrize("name", ["openrouter", "ollama", "vllm"])
def test_thoughts_come_in_a_field_called_reasoning(name: str) -> None:
    answer, _ = ask(name, in_order(said(GOOD, reasoning="hm")))
    assert answer.thought == "hm" and answer.content == GOOD


def test_a_prompt_that_ollama_cut_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """It answers as if nothing had happened; only the count of tokens shows it."""
    long = (UserMessage(content="x = 1;\n" * 3000, source="user"),)
    with caplog.at_level(logging.WARNING):
        ask("ollama", in_order(said(GOOD, usage=(2050, 9, 0, 0))), long)
        assert "read only 2050 tokens of a prompt of 2" in caplog.text
        assert "OLLAMA_CONTEXT_LENGTH" in caplog.text
        caplog.clear()
        ask("ollama", in_order(said(GOOD, usage=(6000, 9, 0, 0))), long)
        ask("vllm", in_order(said(GOOD, usage=(100, 9, 0, 0))), long)
    assert not caplog.records


def test_an_answer_that_was_cut_off_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        answer, _ = ask("anthropic", in_order(said('{"reply": {', finish="length")))
    assert answer.finish_reason == "length"
    assert "was cut off after 20 tokens: raise max_completion_tokens=" in caplog.text
