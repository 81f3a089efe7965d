"""What each provider's server is like, beyond the protocol that all of them speak: OpenAI's.

Read from the providers' own documentation and, of Ollama, from its source, in November 2026;
docs/models.md says which were tried. A new provider is one more entry of PROVIDERS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from astra_chat.tools.text import one_line

Replies = Literal["schema", "json", "words"]


@dataclass(frozen=True)
class Provider:
    """Where a provider's models answer, and where its server differs from OpenAI's."""

    base_url: str
    key_env: str
    """The usual environment variable of its key."""
    example: str
    """A model, for messages."""
    key_needed: bool = True
    replies: Replies = "schema"
    """How a typed reply is asked for unless the user says so."""
    ignored: tuple[str, ...] = ()
    """Options that the server takes and does not use: they are refused."""
    temperature: float = 2.0
    """Its highest one."""
    limit: str = ""
    """The one name under which it knows the limit of an answer's tokens; empty: both are known."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """What goes into each request besides."""
    unknown_model: str = "see the provider's list of models"
    """What to do where it has no such model."""
    longer_context: str = "choose a model with a longer context"
    """What to do where a prompt is too long."""
    cuts_prompts: bool = False
    """Whether it drops the beginning of a prompt that is too long, without an error."""


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(
        base_url="https://api.openai.com/v1",
        key_env="OPENAI_API_KEY",
        example="o4-mini",
    ),
    "anthropic": Provider(
        base_url="https://api.anthropic.com/v1",
        key_env="ANTHROPIC_API_KEY",
        example="claude-opus-4-6",
        replies="words",  # it ignores response_format
        ignored=("reasoning_effort", "seed", "service_tier"),
        temperature=1.0,
    ),
    "google": Provider(
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        key_env="GEMINI_API_KEY",
        example="gemini-3-flash-preview",
        replies="json",  # our schemas use `const`, which its documented subset lacks
    ),
    "openrouter": Provider(
        base_url="https://openrouter.ai/api/v1",
        key_env="OPENROUTER_API_KEY",
        example="qwen/qwen3-coder",
        limit="max_tokens",
        # Else it may choose a server that ignores the schema.
        request={"provider": {"require_parameters": True}},
        unknown_model="see openrouter.ai/models; if none of its servers accepts a schema, try"
        " replies=json, then replies=words",
    ),
    "ollama": Provider(
        base_url="http://127.0.0.1:11434/v1",
        key_env="OLLAMA_API_KEY",
        example="qwen3-coder:30b",
        key_needed=False,
        ignored=("service_tier",),
        limit="max_tokens",
        unknown_model="fetch it with: ollama pull {model}",
        longer_context="start the server with a larger OLLAMA_CONTEXT_LENGTH",
        cuts_prompts=True,
    ),
    "vllm": Provider(
        base_url="http://127.0.0.1:8000/v1",
        key_env="VLLM_API_KEY",
        example="Qwen/Qwen3-Coder-30B-A3B-Instruct",
        key_needed=False,
        ignored=("service_tier",),
        unknown_model=(
            "use the name of the model that `vllm serve` was started with, or its"
            " --served-model-name"
        ),
        longer_context="start the server with a larger --max-model-len",
    ),
}
"""Providers by the name before the colon in --models."""


def what_to_do(advice: str, model: str) -> str:
    """A provider's advice with the model's name in it."""
    return advice.replace("{model}", one_line(model))
