"""What can be said about a live model, of OpenAI or of any server that speaks its protocol."""

from __future__ import annotations

import logging
import os
from functools import cache
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator

from astra_chat.models.providers import PROVIDERS, Provider, Replies
from astra_chat.models.spec import ModelSpec, Role
from astra_chat.spending.prices import Price, price_of
from astra_chat.tools.types import Value
from astra_chat.tools.wording import nearest
from astra_vgpu.ground.errors import BadInput, MissingDependency

NO_KEY = "EMPTY"
"""Sent to servers that want none; the client insists on something."""

MASKED_CHARACTERS = 16
"""A key of fewer characters is masked nowhere: in a text it may be a word like any other."""

WIRE = (
    "reasoning_effort",
    "max_completion_tokens",
    "max_tokens",
    "temperature",
    "top_p",
    "seed",
    "service_tier",
)
"""Options that go into each request as they are."""
LIMITS = ("max_completion_tokens", "max_tokens")


logger = logging.getLogger(__name__)


class OpenAIOptions(Value):
    """One role's model and how it is asked."""

    provider: str = "openai"
    """A name of PROVIDERS: what stands before the colon, no option."""
    model: str = Field(PROVIDERS["openai"].example, min_length=1)
    base_url: str = PROVIDERS["openai"].base_url
    key_env: str = PROVIDERS["openai"].key_env
    """Name of the environment variable that holds the key."""
    api_version: str | None = Field(None, pattern=r"^[\w.-]+$")
    """Version of Azure's older interface, whose address ends in /openai; the model is the
    deployment."""
    replies: Replies = "schema"
    """How a typed reply is asked for: schema is strict `json_schema`; json is `json_object` with
    the schema in the prompt; words is the schema in the prompt alone, for servers without both."""
    timeout_s: float = Field(300.0, gt=0)
    """Seconds that one request may take; a reasoning model may be silent for minutes."""
    tries: int = Field(8, ge=1)
    """Tries of one request at most, where the server is busy, fails or cannot be reached."""
    backoff_s: float = Field(0.5, ge=0)
    """Seconds of the first wait between two tries; it doubles from try to try."""
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    max_completion_tokens: int | None = Field(None, gt=0)
    max_tokens: int | None = Field(None, gt=0)
    """The older name of the limit, which some servers still want."""
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = None
    service_tier: str | None = None
    usd_in: float | None = Field(None, ge=0)
    """US dollars per million prompt tokens, where prices.toml lacks the model or is out of date."""
    usd_cached: float | None = Field(None, ge=0)
    """US dollars per million prompt tokens that the server had in its cache; as usd_in if not
    said."""
    usd_out: float | None = Field(None, ge=0)
    """US dollars per million completion tokens; counts only with usd_in."""

    @field_validator("base_url")
    @classmethod
    def _plain_address(cls, url: str) -> str:
        """Names of models stand in transcripts: an address may hold no secret."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be http://HOST... or https://HOST...")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError(
                "must not contain a user name, password or query: the key comes from the"
                " environment"
            )
        return url.rstrip("/")

    @model_validator(mode="after")
    def _used(self) -> OpenAIOptions:
        """Refuses what the provider would drop in silence."""
        of = self.of
        for name in self.wire().keys() & set(of.ignored):
            raise ValueError(f"{self.provider} ignores {name}: leave it out")
        if self.temperature is not None and self.temperature > of.temperature:
            raise ValueError(
                f"temperature: must be at most {of.temperature:g} with {self.provider}"
            )
        if self.max_tokens is not None and self.max_completion_tokens is not None:
            raise ValueError(
                "max_tokens and max_completion_tokens set the same limit: give only one of them"
            )
        return self

    @property
    def of(self) -> Provider:
        return PROVIDERS[self.provider]

    def wire(self) -> dict[str, Any]:
        """The options that go into a request, by the names that the provider knows."""
        given = {name: value for name in WIRE if (value := getattr(self, name)) is not None}
        if limit := self.of.limit:
            return {limit if name in LIMITS else name: value for name, value in given.items()}
        return given

    @property
    def price(self) -> Price | None:
        """The model's price; None where it is not known."""
        if self.usd_in is None or self.usd_out is None:
            return price_of(self.model)
        cached = self.usd_in if self.usd_cached is None else self.usd_cached
        return Price.model_validate({"in": self.usd_in, "cached": cached, "out": self.usd_out})

    @property
    def described(self) -> str:
        """The model and everything that shapes its answers, for the key of a recording."""
        return ",".join(
            [
                f"{self.provider}:{self.model}",
                *(f"{name}={value}" for name, value in self.wire().items()),
            ]
        )


def options_of(role: Role, spec: ModelSpec) -> OpenAIOptions:
    """The options of a role's model. Raises BadInput naming the one that is off."""
    there = PROVIDERS[spec.kind]
    given = {"base_url": there.base_url, "key_env": there.key_env, "replies": there.replies}
    given |= (_from_environment() if spec.kind == "openai" else {}) | spec.options
    if "provider" in spec.options:
        raise BadInput(f"--models, {role}: {_no_option('provider')}")
    given["provider"] = spec.kind
    if spec.argument:
        given["model"] = spec.argument
    try:
        return OpenAIOptions.model_validate(given)
    except ValidationError as error:
        raise BadInput(f"--models, {role}: {_words(error)}") from None


def _from_environment() -> dict[str, str]:
    url = os.environ.get("OPENAI_BASE_URL", "")
    return {"base_url": url} if url else {}


def _words(error: ValidationError) -> str:
    problem = error.errors()[0]
    name = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return _no_option(name)
    what = problem["msg"].removeprefix("Value error, ")
    return f"{name}: {what}" if name else what


def _no_option(name: str) -> str:
    options = [o for o in OpenAIOptions.model_fields if o not in ("model", "provider")]
    near = nearest(name, options)
    what = f"did you mean {near}?" if near else f"there is {', '.join(options)}"
    return f"there is no option '{name}'; {what}"


@cache
def _warn_of_short_key(name: str) -> None:
    """Warn of a key that is too short to be masked, once for each variable."""
    logger.warning(
        "the key in %s has fewer than %d characters, so it is not masked if a server repeats it"
        " in an error message",
        name,
        MASKED_CHARACTERS,
    )


def key_of(options: OpenAIOptions) -> SecretStr:
    """The key, from the environment alone. Raises MissingDependency where one is needed."""
    key = os.environ.get(options.key_env, "").strip()
    if key:
        if len(key) < MASKED_CHARACTERS and key != NO_KEY:
            _warn_of_short_key(options.key_env)
        return SecretStr(key)
    at_home = options.base_url == options.of.base_url and options.of.key_needed
    if at_home or options.key_env != options.of.key_env:
        raise MissingDependency(
            f"no key for {options.base_url}: set {options.key_env} in the environment,"
            " or name another variable with key_env=NAME"
        )
    return SecretStr(NO_KEY)
