"""The memory's file: TOML, one table [[card]] for each plan, for people to read and to edit."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from astra_chat.agents.memory_cards import MemoryCard
from astra_chat.memory.cards import task_class
from astra_chat.tools.system.files import locked, write_whole
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Basis, Value
from astra_vgpu.ground.errors import BadInput, reading

OFF = "off"
MOST_CARDS = 60
"""Cards in the request of one run."""
HEAD = """# Plans from confirmed Astra runs (docs/memory.md). You may edit and share this file.
# Numbers are speedups: `found` over the plan's parent, `confirmed` of the winner over the baseline.
schema = 1
"""


class MemoryFile(Value):
    """All cards of a file, in its order."""

    schema_number: Literal[1] = Field(alias="schema")
    card: tuple[MemoryCard, ...] = ()


def read_memory(file: Path) -> tuple[MemoryCard, ...]:
    """Raises BadInput naming the card and what is wrong with it."""
    with reading(file):
        text = file.read_text(encoding="utf-8")
    try:
        return MemoryFile.model_validate(tomllib.loads(text)).card
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{file}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = [part + 1 if isinstance(part, int) else part for part in first["loc"]]
        where = " ".join(map(str, place)) or "the file"
        raise BadInput(f"{file}: {where}: {first['msg'].lower()}") from None


def changing(file: Path) -> AbstractContextManager[None]:
    """Lets one process at a time read the file and write it changed; the others wait."""
    return locked(file.with_name(f".{file.name}.lock"), wait=True)


def write_memory(file: Path, cards: Iterable[MemoryCard]) -> None:
    """Replace the file as a whole. Comments of the user's in it are lost, cards are not."""
    tables = ("".join(_table(card)) for card in cards)
    write_whole(file, "\n".join([HEAD, *tables]).encode())


def _table(card: MemoryCard) -> Iterator[str]:
    yield "[[card]]\n"
    for name, value in card.model_dump(mode="json").items():
        if value not in (None, ""):
            yield f"{name} = {_literal(value)}\n"


def _literal(value: Any) -> str:
    """A text, number or list of texts in TOML; JSON's escapes of a text are TOML's, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def merged(old: Iterable[MemoryCard], new: Iterable[MemoryCard]) -> list[MemoryCard]:
    """Old and new cards. The same plan of another run is one card with one more run; the same run
    counts once."""
    found = list(old)
    for card in new:
        same = next((n for n, one in enumerate(found) if _same(one, card)), None)
        if same is None:
            found.append(card)
            continue
        runs = dict.fromkeys([*found[same].runs, *card.runs])
        found[same] = found[same].model_copy(update={"runs": tuple(runs)})
    return found


def _same(one: MemoryCard, other: MemoryCard) -> bool:
    fields = ("outcome", "task", "bottleneck", "basis", "gpu")
    titles = {" ".join(card.technique.casefold().split()) for card in (one, other)}
    return len(titles) == 1 and all(getattr(one, n) == getattr(other, n) for n in fields)


def for_run(spec: str | Path | None, task: Task, basis: Basis) -> tuple[MemoryCard, ...]:
    """The cards that a run about this task gets: of its class first, then of the same kind of
    times, then what was reproduced most. None without a file. Raises BadInput."""
    if spec is None or str(spec) == OFF:
        return ()
    kind = task_class(task)
    ranked = sorted(
        read_memory(Path(spec)),
        key=lambda card: (card.task_class != kind, card.basis != basis, -len(card.runs)),
    )
    return tuple(ranked[:MOST_CARDS])
