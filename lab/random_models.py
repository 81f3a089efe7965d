"""Models that draw the next kernel by lot: a search without knowledge, the same for the same seed.

What is drawn is a change to the source that the prompt says is to be changed: one of its integer
constants halved or doubled, or another kernel of a pool in its place.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence

from autogen_core.models import ChatCompletionClient

from astra_chat.agents.position import read_position
from astra_chat.agents.source_text import without_numbers
from astra_chat.agents.turns import Analysis, Kernel, NextSpeaker, Pass, Payload, Plan, Position
from astra_chat.models.offline import OfflineClient
from astra_chat.models.spec import Role
from astra_chat.spending.prices import FREE, Price
from astra_chat.tools.profiling.metrics import INSTRUCTIONS
from astra_chat.tools.types import Basis, candidate_id

CONSTANT = re.compile(r"^constexpr int (k\w+) = (\d+);", re.MULTILINE)
SOURCE = re.compile(
    r"^## The (source to change|baseline)[^\n]*\n(`{3,})cuda\n(.*?)^\2$",
    re.MULTILINE | re.DOTALL,
)
JUMPS = 0.3
"""Share of draws that take another kernel of the pool."""


class RandomModels:
    """One client for each role, all drawing by the same seed from the same pool."""

    name = "drawn"

    def __init__(self, seed: int, pool: Mapping[str, str]) -> None:
        """`pool`: sources by name."""
        self._seed, self._pool = seed, pool

    def described(self, role: Role) -> str:
        return f"{self.name}, seed {self._seed}"

    def price(self, role: Role) -> Price | None:
        return FREE

    def expected(self, kernel: Kernel, place: Position, basis: Basis = "measured") -> str | None:
        """None: random kernels have no expected result."""
        return None

    async def close(self) -> None:
        """Nothing is open."""

    def client(self, role: Role) -> ChatCompletionClient:
        return RandomClient(role, self._seed, self._pool)


class RandomClient(OfflineClient):
    """Reads parent and place from its prompt, as a model does."""

    def __init__(self, role: Role, seed: int, pool: Mapping[str, str]) -> None:
        self._role, self._seed, self._pool = role, seed, pool

    def answer(self, prompts: Sequence[str]) -> str:
        if self._role == "selector":
            return NextSpeaker(choose="planner").model_dump_json()
        payload = self._payload("\n".join(prompts))
        return f'{{"reply": {payload.model_dump_json(exclude={"edits"})}}}'

    def _payload(self, prompt: str) -> Payload:
        place = read_position(prompt)
        if self._role == "planner" or (self._role == "single" and place and place.attempt == 0):
            lines = [line for line in parent_in(prompt).splitlines() if line.strip()]
            return Plan(
                title="A draw",
                change="Whatever is drawn.",
                why="No reason.",
                anchor=lines[0],
                metric=INSTRUCTIONS,
                predicted_ratio=1.0,
            )
        if self._role == "profiler":
            return Analysis(words="Draw on.", bottleneck="latency", evidence=(), next="plan")
        wanted = self._role == "coder" or (
            self._role == "single" and place is not None and place.attempt == 1
        )
        if not wanted or place is None:
            return Pass(words="there is nothing to draw for this role")
        source = parent_in(prompt)
        dice = random.Random(f"{self._seed}/{place.round}/{place.attempt}/{candidate_id(source)}")
        words, drawn = draw(source, self._pool, dice)
        return Kernel(words=words, source=drawn)


def parent_in(prompt: str) -> str:
    """The source that a prompt says is to be changed, else the baseline. Raises ValueError."""
    found = {title: source for title, _, source in SOURCE.findall(prompt)}
    if not found:
        raise ValueError("a prompt to the drawing coder contains no source")
    return without_numbers(str(found.get("source to change", found.get("baseline"))))


def draw(source: str, pool: Mapping[str, str], dice: random.Random) -> tuple[str, str]:
    """What was changed, and the resulting source."""
    constants = list(CONSTANT.finditer(source))
    others = sorted(name for name, text in pool.items() if text != source)
    if others and (not constants or dice.random() < JUMPS):
        name = dice.choice(others)
        return f"{name} in its place", pool[name]
    if not constants:
        raise ValueError("nothing can be drawn: no other kernel, and no constant to change")
    found = dice.choice(constants)
    number = int(found[2])
    changed = number * 2 if number < 2 or dice.random() < 0.5 else number // 2
    drawn = f"{source[: found.start(2)]}{changed}{source[found.end(2) :]}"
    return f"{found[1]} {number} -> {changed}", drawn
