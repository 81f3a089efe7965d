"""What a model server's error means: pass and come again, or say what the user can do about it."""

from __future__ import annotations

import re
from ipaddress import ip_address

import openai
from pydantic import SecretStr

from astra_chat.models.openai_options import MASKED_CHARACTERS, OpenAIOptions
from astra_chat.models.providers import what_to_do
from astra_chat.models.server_error import FAILURES, ServerError, read_error
from astra_vgpu.ground.errors import AstraError, BadInput, MissingDependency

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
