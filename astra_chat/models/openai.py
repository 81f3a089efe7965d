"""Live models: OpenAI's, and those of any server that speaks its protocol."""

from __future__ import annotations

from collections.abc import Mapping

from autogen_core.models import ChatCompletionClient

from astra_chat.agents.turns import Kernel, Position
from astra_chat.models.openai_options import key_of, options_of
from astra_chat.models.spec import ModelSpec, Role
from astra_chat.spending.prices import Price
from astra_chat.tools.types import Basis


class OpenAIModels:
    """Raises BadInput for an option that is off and MissingDependency for a missing key at once,
    before anything is spent."""

    def __init__(self, name: str, roles: Mapping[Role, ModelSpec]) -> None:
        self.name = name
        self._options = {role: options_of(role, spec) for role, spec in roles.items()}
        self._keys = {role: key_of(options) for role, options in self._options.items()}
        self._open: list[ChatCompletionClient] = []

    def client(self, role: Role) -> ChatCompletionClient:
        """A client of its own, for the running event loop."""
        from astra_chat.models.openai_client import OpenAIClient

        client = OpenAIClient(self._options[role], self._keys[role])
        self._open.append(client)
        return client

    def described(self, role: Role) -> str:
        return self._options[role].described

    def price(self, role: Role) -> Price | None:
        return self._options[role].price

    def expected(self, kernel: Kernel, place: Position, basis: Basis = "measured") -> str | None:
        """None: a live model predicts only its plan's ratio."""
        return None

    async def close(self) -> None:
        while self._open:
            await self._open.pop().close()
