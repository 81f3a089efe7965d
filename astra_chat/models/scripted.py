"""Models that replay a task's script: a demonstration, and a test of the rest of the chat."""

from __future__ import annotations

import re
from collections.abc import Sequence

from autogen_core.models import ChatCompletionClient

from astra_chat.agents.turns import (
    Analysis,
    Edits,
    Kernel,
    NextSpeaker,
    Pass,
    Payload,
    Position,
    Source,
)
from astra_chat.models.offline import OfflineClient, position_in
from astra_chat.models.script import Script
from astra_chat.models.spec import Role
from astra_chat.spending.prices import FREE, Price
from astra_chat.tools.types import Basis


class ScriptedModels:
    """One client for each role, all reading the same script."""

    name = "scripted"

    def __init__(self, script: Script) -> None:
        self._script = script

    def described(self, role: Role) -> str:
        return self.name

    def price(self, role: Role) -> Price | None:
        return FREE

    async def close(self) -> None:
        """Nothing is open."""

    def client(self, role: Role) -> ChatCompletionClient:
        return ScriptedClient(self._script, role)

    def expected(self, kernel: Kernel, place: Position, basis: Basis = "measured") -> str | None:
        """What the script expects of a kernel: attempt 0 is the coder's, n the fixer's n-th."""
        scripted = self._script.scripted_kernel(place.round, place.attempt)
        if scripted is None or self._script.sources[scripted.name] != kernel.source:
            return None
        return scripted.expects.on(basis)


class ScriptedClient(OfflineClient):
    """Looks up answers by the position in the chat that the prompt states. Without a cursor, a run
    that deviates from the script, or is resumed, still gets the correct answer."""

    def __init__(self, script: Script, role: Role) -> None:
        self._script, self._role = script, role

    def answer(self, prompts: Sequence[str]) -> str:
        """The script's answer. Raises ValueError if no prompt states its position."""
        place = position_in(prompts)
        if self._role == "selector":
            choice = self._script.choice(place.attempt)
            return NextSpeaker(choose=choice or "nobody: the script has ended").model_dump_json()
        payload = self._payload(place, "\n".join(prompts))
        if isinstance(payload, Analysis):
            # A script serves every device: each profile has some of its metrics.
            evidence = tuple(name for name in payload.evidence if _profiled(name, prompts))
            payload = payload.model_copy(update={"evidence": evidence})
        return f'{{"reply": {payload.model_dump_json()}}}'

    def _payload(self, place: Position, seen: str) -> Payload | Source | Edits:
        found: Payload | Source | Edits | None
        match self._role:
            case "tester":
                found, missing = self._script.tests(place.attempt), "further tests"
            case "planner":
                found, missing = self._script.plan(place.round), "further plan"
            case "coder":
                found = self._script.kernel(place.round, 0, seen) if place.attempt == 1 else None
                missing = "further kernel for this plan"
            case "fixer":
                found = self._script.kernel(place.round, place.attempt, seen)
                missing = "further repair for this candidate"
            case "single" if place.attempt == 0:
                found, missing = self._script.plan(place.round), "further plan"
            case "single":
                found = self._script.kernel(place.round, place.attempt - 1, seen)
                missing = "further kernel for this plan"
            case _:
                found, missing = self._script.analysis(place.round), "analysis of this candidate"
        return found or Pass(words=f"the script has no {missing}")


def _profiled(name: str, prompts: Sequence[str]) -> bool:
    """Whether the profile in a prompt has a metric."""
    line = re.compile(rf"^- {re.escape(name)} ", re.MULTILINE)
    return any(line.search(prompt) for prompt in prompts)
