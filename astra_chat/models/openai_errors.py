"""What a model server's error means: pass and come again, or say what the user can do about it."""

from __future__ import annotations

import json
import re
from ipaddress import ip_address
from typing import Any

import openai
from pydantic import SecretStr

from astra_chat.models.openai_options import MASKED_CHARACTERS, OpenAIOptions
from astra_vgpu.ground.errors import AstraError, BadInput, MissingDependency

PASSING_STATUS = (408, 409, 425, 429)
"""Besides all from 500 up."""
NO_QUOTA = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
"""Codes of a 429 that no waiting helps."""
WITHHELD = ("content_filter", "content_policy_violation", "invalid_prompt")
"""Codes of a 400 that is a filter's, not a mistake in the request."""
LONGEST_WORDS = 400


class NoAnswer(Exception):
    """The server answered 200 with something that is no chat completion."""


FAILURES = (
    openai.OpenAIError,
    NoAnswer,
    TimeoutError,
    json.JSONDecodeError,
    UnicodeDecodeError,
)
"""What a request may end with; anything else is our own fault."""


def passing(error: Exception) -> bool:
    """Whether the same request may succeed a little later."""
    if refused_here(error):
        return False
    if isinstance(error, openai.APIStatusError):
        if _code(error) in NO_QUOTA:
            return False
        return error.status_code in PASSING_STATUS or error.status_code >= 500
    return isinstance(error, FAILURES)


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
    return isinstance(error, openai.BadRequestError) and _code(error) in WITHHELD


def asked_wait_s(error: Exception) -> float | None:
    """Seconds that the server asked to wait; None where it did not."""
    if not isinstance(error, openai.APIStatusError):
        return None
    headers = error.response.headers
    for name, per_second in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return float(headers[name]) / per_second
        except (KeyError, ValueError):
            continue  # a date, or nothing: our own waits do
    return None


def explained(error: Exception, options: OpenAIOptions, key: SecretStr) -> AstraError:
    """The error as one line that says what to do. It never holds the key."""
    at = f"{options.model} at {options.base_url}"
    if isinstance(error, openai.APITimeoutError | TimeoutError):
        return MissingDependency(
            f"{at} did not answer within {options.timeout_s:g} s, {_times(options)}:"
            " raise timeout_s=..., or look at the server"
        )
    if refused_here(error):
        return MissingDependency(
            f"nothing listens at {options.base_url}: start the server, or correct base_url"
        )
    if isinstance(error, openai.APIConnectionError):
        return MissingDependency(f"cannot reach {options.base_url}, {_times(options)}: is it up?")
    if isinstance(error, openai.APIStatusError):
        return _status(error, at, options, key)
    said = scrubbed(str(error), key)
    return MissingDependency(f"{at} answers with no chat completion, {_times(options)}: {said}")


def in_short(error: Exception, options: OpenAIOptions) -> str:
    """Which model's server failed and how, without its own words."""
    if isinstance(error, openai.APITimeoutError | TimeoutError):
        how = f"did not answer within {options.timeout_s:g} s"
    elif isinstance(error, openai.APIConnectionError):
        how = "cannot be reached, or broke off"
    elif isinstance(error, openai.APIStatusError):
        how = f"answered HTTP {error.status_code}"
    else:
        how = "answered with no chat completion"
    return f"{options.model} at {options.base_url} {how}"


def _status(
    error: openai.APIStatusError, at: str, options: OpenAIOptions, key: SecretStr
) -> AstraError:
    status, said = error.status_code, scrubbed(_message(error), key)
    if status in (401, 403):
        # The server's own words often repeat a part of the key.
        return MissingDependency(
            f"{at} refuses the key in {options.key_env} (HTTP {status}): set one that is valid"
        )
    if _code(error) in NO_QUOTA:
        return MissingDependency(f"{at}: the account has no quota left: {said}")
    if status == 404:
        return BadInput(f"{at} is not there (HTTP 404): {said}")
    if passing(error):
        return MissingDependency(f"{at} answers HTTP {status}, {_times(options)}: {said}")
    hint = "; try replies=json" if "response_format" in said or "json_schema" in said else ""
    return BadInput(f"{at} refuses the request (HTTP {status}): {said}{hint}")


def _times(options: OpenAIOptions) -> str:
    return "in one try" if options.tries == 1 else f"in {options.tries} tries"


def _code(error: openai.APIStatusError) -> str:
    return str(error.code or error.type or "")


def _message(error: openai.APIStatusError) -> str:
    body: Any = error.body
    if isinstance(body, dict) and isinstance(body.get("message"), str):
        return str(body["message"])
    return error.message


def scrubbed(text: str, key: SecretStr) -> str:
    """The text in one line, cut, without the key or anything that looks like one."""
    text = re.sub(r"\bsk-[\w*-]{4,}", "[key]", without_key(text, key))
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
