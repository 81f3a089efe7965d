"""Trust: Astra's own code runs anywhere; other code runs sandboxed, or if the user trusts it."""

from __future__ import annotations

from functools import cache

from astra_chat.tools.sandbox.isolation import require_isolation
from astra_chat.tools.task.folder import BUILTIN, Task

ENDINGS = (".cu", ".py", ".toml")


def require_trust(trust: bool, *texts: str) -> None:
    """Raises MissingDependency where one of these files did not come with Astra, word for word, and
    this machine cannot isolate what it does; not if the user trusts them."""
    if not trust and not _shipped().issuperset(texts):
        require_isolation()


def acting_files(task: Task) -> list[str]:
    """Texts of what acts in every judging of a task: flags for nvcc, the oracle, headers."""
    python = sorted(path for path in task.folder.rglob("*.py") if path.is_file())
    names = (task.folder / name for name in ("task.toml", *task.headers))
    return [path.read_text() for path in (*names, *python)]


@cache
def _shipped() -> frozenset[str]:
    return frozenset(p.read_text() for p in BUILTIN.rglob("*") if p.suffix in ENDINGS)
