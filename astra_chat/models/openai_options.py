"""What can be said about an OpenAI model, or one of any compatible server, and its key."""

from __future__ import annotations

import logging
import os
from functools import cache
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator

from astra_chat.models.spec import ModelSpec, Role
from astra_chat.spending.prices import Price, price_of
from astra_chat.tools.types import Value
from astra_vgpu.ground.errors import BadInput, MissingDependency

DEFAULT_MODEL = "o4-mini"
OPENAI_URL = "https://api.openai.com/v1"
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


logger = logging.getLogger(__name__)


class OpenAIOptions(Value):
    """One role's model and how it is asked."""

    model: str = Field(DEFAULT_MODEL, min_length=1)
    base_url: str = OPENAI_URL
    key_env: str = "OPENAI_API_KEY"
    """Name of the environment variable that holds the key."""
    api_version: str | None = Field(None, pattern=r"^[\w.-]+$")
    """Version of Azure's older interface, whose address ends in /openai; the model is the
    deployment."""
    replies: Literal["schema", "json", "words"] = "schema"
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
                "must hold no name, password or query: the key comes from the environment"
            )
        return url.rstrip("/")

    def wire(self) -> dict[str, Any]:
        """The options that go into a request."""
        return {name: value for name in WIRE if (value := getattr(self, name)) is not None}

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
            [f"openai:{self.model}", *(f"{name}={value}" for name, value in self.wire().items())]
        )


def options_of(role: Role, spec: ModelSpec) -> OpenAIOptions:
    """The options of a role's model. Raises BadInput naming the one that is off."""
    given: dict[str, str] = {} if "base_url" in spec.options else _from_environment()
    given |= spec.options
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
        there = ", ".join(option for option in OpenAIOptions.model_fields if option != "model")
        return f"there is no option '{name}'; there is {there}"
    return f"{name}: {problem['msg'].removeprefix('Value error, ')}"


@cache
def _warn_of_short_key(name: str) -> None:
    """Warn of a key that is too short to be masked, once for each variable."""
    logger.warning(
        "the key in %s has fewer than %d characters: should a server repeat it in an error, it is"
        " not masked",
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
    if options.base_url == OPENAI_URL or options.key_env != "OPENAI_API_KEY":
        raise MissingDependency(
            f"no key for {options.base_url}: set {options.key_env} in the environment,"
            " or name another variable with key_env=NAME"
        )
    return SecretStr(NO_KEY)
