"""Places in a task folder that the user still has to fill in, line by line."""

from __future__ import annotations

import re
from pathlib import Path

from astra_chat.tools.new.c_launcher import plain, signature, types
from astra_chat.tools.new.draft import MARK
from astra_chat.tools.new.source import code, functions, pieces
from astra_chat.tools.task.folder import REQUIRED_FILES, Task
from astra_chat.tools.task.launcher import prototype

_LEFT = re.compile(rf"\b{MARK}:\s*(.*)")
_BLANK_FORMULA = re.compile(r":\s*\.\.\.\s*(,|#|$)")


def marks(folder: Path) -> list[str]:
    """Every place that `astra-chat new` left to a person, as "task.toml, line 5: ..."."""
    places: list[str] = []
    for name in REQUIRED_FILES:
        path = folder / name
        lines = path.read_text().splitlines() if path.is_file() else []
        for number, line in enumerate(lines, 1):
            if left := _LEFT.search(line):
                places.append(f"{name}, line {number}: {left[1]}")
            elif name == "reference.py" and _BLANK_FORMULA.search(line):
                places.append(f"{name}, line {number}: ... stands where a formula should")
    return places


def launcher_problem(task: Task) -> str | None:
    """Differences between the launcher in baseline.cu and the one that task.toml describes."""
    wanted = prototype(task)
    defined = functions(code(pieces(task.baseline)))
    launcher = next((f for f in defined if f.name == task.entry and f.c_linkage), None)
    if launcher is None:
        return f"baseline.cu does not define the launcher of task.toml: {wanted}"
    inner = wanted[wanted.index("(") + 1 : -1]
    expected = [plain(part) for part in inner.split(", ")]
    got = signature(launcher.parameters)
    if types(got) == types(expected):
        return None
    return (
        f"baseline.cu, line {launcher.line}: {task.entry} takes ({', '.join(got)}), but task.toml"
        f" describes {wanted}"
    )
