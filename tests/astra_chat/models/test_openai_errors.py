"""Errors of model servers, one by one."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from pydantic import SecretStr

from astra_chat.models.openai_client import (
    LONGEST_WORDS,
    asked_wait_s,
    explained,
    in_short,
    passing,
    scrubbed,
    withheld,
    without_key,
)
from astra_chat.models.openai_options import NO_KEY, OpenAIOptions
from astra_chat.models.server_error import NoAnswer
from astra_vgpu.ground.errors import BadInput, MissingDependency

# Whichever HTTP library this version of the SDK stands on.
httpx: Any = vars(openai._exceptions).get("httpx2") or vars(openai._exceptions)["httpx"]

KEY = SecretStr("a-secret-of-this-test")
REQUEST = httpx.Request("POST", "http://host/v1/chat/completions")


def status(number: int, code: str = "", **headers: str) -> openai.APIStatusError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response = httpx.Response(number, headers=named, request=REQUEST)
    kind = {400: openai.BadRequestError, 429: openai.RateLimitError}.get(
        number, openai.APIStatusError
    )
    return kind("words", response=response, body={"message": "words", "code": code})


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (status(429, "rate_limit_exceeded"), True),
        (status(429, "insufficient_quota"), False),
        (status(500), True),
        (status(529), True),
        (status(408), True),
        (status(400), False),
        (status(401), False),
        (status(404), False),
        (openai.APITimeoutError(REQUEST), True),
        (openai.APIConnectionError(request=REQUEST), True),
        (TimeoutError(), True),
        (NoAnswer("<html>"), True),
        (KeyError("ours"), False),
    ],
)
def test_what_passes(error: Exception, passes: bool) -> None:
    assert passing(error) is passes


def test_what_a_server_asks_to_wait() -> None:
    assert asked_wait_s(status(429, retry_after="7")) == 7.0
    assert asked_wait_s(status(429, retry_after_ms="250", retry_after="7")) == 0.25
    assert asked_wait_s(status(429)) is None
    assert asked_wait_s(status(429, retry_after="Fri, 31 Dec 2099 23:59:59 GMT")) is None
    assert asked_wait_s(TimeoutError()) is None


def test_filters_are_told_from_mistakes() -> None:
    assert withheld(status(400, "content_filter")) and not withheld(status(400, "bad_value"))
    assert not withheld(TimeoutError())


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            TimeoutError(),
            MissingDependency,
            "did not answer within 300 s, after 8 attempts: raise timeout",
        ),
        (openai.APIConnectionError(request=REQUEST), MissingDependency, "cannot reach http://host"),
        (NoAnswer("a page"), MissingDependency, "a chat completion, after 8 attempts: a page"),
        (status(400), BadInput, "refuses the request (HTTP 400)"),
    ],
)
def test_each_says_what_to_do(error: Exception, kind: type[Exception], words: str) -> None:
    options = OpenAIOptions(model="m", base_url="http://host/v1")
    found = explained(error, options, KEY)
    assert isinstance(found, kind) and words in str(found)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (openai.APITimeoutError(REQUEST), "did not answer within 300 s"),
        (TimeoutError(), "did not answer within 300 s"),
        (
            openai.APIConnectionError(request=REQUEST),
            "could not be reached, or closed the connection",
        ),
        (status(503), "answered HTTP 503"),
        (NoAnswer("<html>"), "did not answer with a chat completion"),
    ],
)
def test_a_failure_that_passes_is_named_in_short(error: Exception, words: str) -> None:
    options = OpenAIOptions(model="m", base_url="http://host/v1")
    assert in_short(error, options) == f"m at http://host/v1 {words}"


def test_words_of_servers_are_cut_joined_and_hold_no_key() -> None:
    assert scrubbed(f"a\n  b {KEY.get_secret_value()} sk-abcdef", KEY) == "a b [key] [key]"
    assert len(scrubbed("x" * 10_000, KEY)) == LONGEST_WORDS + 3
    assert without_key("an EMPTY reply", SecretStr(NO_KEY)) == "an EMPTY reply"


@pytest.mark.parametrize("short", ["none", "x", "fifteen-letters"])
def test_a_short_key_is_a_word_like_any_other(short: str) -> None:
    assert without_key(f"return {short};", SecretStr(short)) == f"return {short};"
    long = "sixteen-letters!"
    assert without_key(f"return {long};", SecretStr(long)) == "return [key];"
