"""A model server's error as it says it itself: each provider has a form of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import openai

PASSING_STATUS = (408, 409, 425, 429)
"""Besides all from 500 up."""
NO_QUOTA = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
"""Codes of a 429 that no waiting helps."""
NO_CREDIT = ("credit balance is too low",)
"""Anthropic's words, with HTTP 400; OpenRouter answers 402."""
WITHHELD = ("content_filter", "content_policy_violation", "invalid_prompt")
"""Codes of a 400 that is a filter's, not a mistake in the request."""
BAD_KEY = ("api key not valid", "api key expired", "api_key_invalid")
"""Google's words, with HTTP 400."""
TOO_LONG_CODES = ("context_length_exceeded", "request_too_large", "exceed_context_size_error")
TOO_LONG = (
    "maximum context length",  # OpenAI, vLLM, OpenRouter
    "prompt is too long",  # Anthropic
    "exceeds the maximum number of tokens",  # Google
    "exceeds the context length",  # Ollama
    "exceeds the available context size",  # llama.cpp, which Ollama runs
)
UNKNOWN_MODEL = ("model_not_found", "is not a valid model id")

Kind = Literal["key", "quota", "unknown", "too_long", "busy", "fails", "flagged", "refused"]


class NoAnswer(Exception):
    """The server answered 200 with something that is no chat completion."""

    def __init__(self, said: str, error: object = None) -> None:
        super().__init__(said)
        self.error = error
        """The error that it sent in the place of an answer, as JSON."""


FAILURES = (
    openai.OpenAIError,
    NoAnswer,
    TimeoutError,
    json.JSONDecodeError,
    UnicodeDecodeError,
)
"""What a request may end with; anything else is our own fault."""


@dataclass(frozen=True)
class ServerError:
    """What a server says about a request that it does not answer."""

    status: int
    codes: frozenset[str]
    message: str
    wait_s: float | None = None
    """Seconds that it asks to wait."""
    moderated: bool = False

    @property
    def passes(self) -> bool:
        """Whether the same request may succeed a little later."""
        return self.kind in ("busy", "fails")

    @property
    def kind(self) -> Kind:
        """What the error means, whoever says it."""
        if self.status == 402 or self._has(NO_QUOTA, NO_CREDIT):
            return "quota"
        if self.moderated or (self.status == 400 and self._has(WITHHELD)):
            return "flagged"
        if self.status in (401, 403) or (self.status == 400 and self._has((), BAD_KEY)):
            return "key"
        if self.status == 413 or self._has(TOO_LONG_CODES, TOO_LONG):
            return "too_long"
        if self.status == 404 or self._has(UNKNOWN_MODEL, UNKNOWN_MODEL):
            return "unknown"
        if self.status == 429:
            return "busy"
        passes = self.status in PASSING_STATUS or self.status >= 500
        return "fails" if passes else "refused"

    def _has(self, codes: tuple[str, ...], words: tuple[str, ...] = ()) -> bool:
        said = self.message.lower()
        return not self.codes.isdisjoint(codes) or any(word in said for word in words)


def read_error(error: Exception) -> ServerError | None:
    """The server's error; None where the server said none, or none with a status."""
    if isinstance(error, openai.APIStatusError):
        inner = _inner(error.body)
        message = str(inner.get("message") or error.message)
        wait_s = _asked_by_header(error.response.headers)
        return _read(error.status_code, inner, message, wait_s)
    if isinstance(error, NoAnswer):
        inner = _inner(error.error)
        status = inner.get("code")
        if isinstance(status, int) and 400 <= status < 600:
            return _read(status, inner, str(inner.get("message") or error), None)
    return None


def _read(status: int, inner: Mapping[str, Any], message: str, wait_s: float | None) -> ServerError:
    named = (inner.get(name) for name in ("code", "type", "status"))
    metadata = inner.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    # A provider behind OpenRouter says what is wrong in its own words.
    if isinstance(raw := metadata.get("raw"), str) and raw.strip():
        message = f"{message}: {raw}"
    return ServerError(
        status=status,
        codes=frozenset(str(code) for code in named if code),
        message=message,
        wait_s=_asked_in_body(inner) if wait_s is None else wait_s,
        moderated=bool(metadata.get("reasons") or metadata.get("flagged_input")),
    )


def _inner(body: object) -> Mapping[str, Any]:
    """The object that describes the error: in OpenAI's form, in a list (Google), without a frame
    (older vLLM), or a mere text."""
    if isinstance(body, list):
        body = body[0] if body else None
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping | str):
        body = body["error"]
    if isinstance(body, str) and body.strip():
        return {"message": body}
    return body if isinstance(body, Mapping) else {}


def _asked_by_header(headers: Mapping[str, str]) -> float | None:
    for name, per_second in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return float(headers[name]) / per_second
        except (KeyError, ValueError):
            continue  # a date, or nothing: our own waits do
    return None


def _asked_in_body(inner: Mapping[str, Any]) -> float | None:
    """Google names the pause among the details: {"retryDelay": "36s"}."""
    for detail in _details(inner.get("details")):
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and delay.endswith("s"):
            try:
                return float(delay[:-1])
            except ValueError:
                continue
    return None


def _details(details: object) -> Iterator[Mapping[str, Any]]:
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, Mapping):
            yield detail
