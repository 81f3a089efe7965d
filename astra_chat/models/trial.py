"""Tries every role's model with one small question, in the form that the role has to answer in."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from autogen_core.models import LLMMessage, UserMessage
from pydantic import BaseModel, ValidationError

from astra_chat.agents.reply_errors import UnusableReply, malformed
from astra_chat.agents.turns import REPLY_TYPES, NextSpeaker
from astra_chat.models.openai_client import OpenAIModels
from astra_chat.models.run_models import Models, RunModels
from astra_chat.models.spec import LIVE, ROLES, Role, at_address, parse
from astra_chat.tools.text import one_line
from astra_vgpu.ground.errors import AstraError, BadInput, MissingDependency

QUESTION = "This is a test of the connection. Answer with the JSON object {reply} and nothing else."
TRIES = "2"
"""Tries of each question, unless --models says otherwise: somebody waits for the answer."""
UNUSABLE = MissingDependency.exit_code
"""Exit code where a model answered and its answer cannot be used."""


@dataclass(frozen=True)
class Trial:
    """What came of one role's question."""

    role: Role
    model: str
    words: str
    exit_code: int
    """0, or the exit code of the failure."""
    said: str = ""
    """What the model answered, in one line."""


def open_live(spec: str, base_url: str | None) -> Models:
    """Models of --models that answer for themselves. Raises BadInput for others."""
    spec = at_address(spec, base_url)
    roles = parse(spec)
    if not all(one.kind in LIVE for one in roles.values()):
        there = ", ".join(f"{kind}:MODEL" for kind in LIVE)
        raise BadInput(f"--models {spec}: only live models can be tried: {there}")
    for one in roles.values():
        one.options.setdefault("tries", TRIES)
    return RunModels(spec, dict.fromkeys(ROLES, OpenAIModels(spec, roles)))


async def try_all(models: Models) -> list[Trial]:
    """Try all roles of the team at once, each on its own client; in the order of ROLES."""
    try:
        return list(
            await asyncio.gather(*(try_one(models, role) for role in ROLES if role != "single"))
        )
    finally:
        await models.close()


async def try_one(models: Models, role: Role) -> Trial:
    model = models.described(role)
    try:
        words, said = await _ask(models, role)
        return Trial(role, model, words, 0, one_line(said))
    except AstraError as error:
        return Trial(role, model, str(error), error.exit_code)
    except UnusableReply as error:
        return Trial(role, model, f"its reply cannot be used: {error.reason}", UNUSABLE)
    except ValidationError as error:
        return Trial(role, model, f"its reply cannot be used: {malformed(error)}", UNUSABLE)


async def try_each(models: Models) -> list[Trial]:
    """One question to each different model, as the first role that has it."""
    roles: dict[str, Role] = {}
    for role in ROLES:
        if role != "single":
            roles.setdefault(models.described(role), role)
    try:
        return [await try_one(models, role) for role in roles.values()]
    finally:
        await models.close()


async def _ask(models: Models, role: Role) -> tuple[str, str]:
    """What a usable reply says of itself, and the reply. Raises what the client raises, and
    ValidationError."""
    reply, example = _form(role)
    question = QUESTION.format(reply=example)
    asked: list[LLMMessage] = [UserMessage(content=question, source="user")]
    began = time.monotonic()
    result = await models.client(role).create(asked, json_output=reply)
    seconds = time.monotonic() - began
    reply.model_validate_json(str(result.content))
    usage = result.usage
    taken = f"{seconds:.1f} s, {usage.prompt_tokens} tokens in, {usage.completion_tokens} out"
    return taken, str(result.content)


def _form(role: Role) -> tuple[type[BaseModel], str]:
    """A role's own reply type, so that the server has to take its schema, and a short reply."""
    if role == "selector":
        return NextSpeaker, '{"choose": "planner"}'
    return REPLY_TYPES[role], '{"reply": {"kind": "pass", "words": "ready"}}'
