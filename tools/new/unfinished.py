"""Places in a task folder that the user still has to fill in, line by line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from astra_chat.tools.build.bound_launcher import needs_launcher
from astra_chat.tools.new import written_launcher
from astra_chat.tools.new.c_launcher import plain, signature, types
from astra_chat.tools.new.draft import MARK
from astra_chat.tools.new.layout import with_stride
from astra_chat.tools.new.source import code, functions, pieces
from astra_chat.tools.policy.misnamed import misnamed
from astra_chat.tools.task.folder import REQUIRED_FILES, Task
from astra_chat.tools.task.launcher import prototype
from astra_chat.tools.wording import did_you_mean

_LEFT = re.compile(rf"\b{MARK}:\s*(.*)")
_BLANK_FORMULA = re.compile(r":\s*\.\.\.\s*(,|#|$)")


def marks(folder: Path) -> list[str]:
    """Every place that `astra-chat new` left to a person, as "task.toml, line 5: ..."."""
    places: list[str] = []
    for name in (*REQUIRED_FILES, written_launcher.FILE):
        path = folder / name
        lines = path.read_text().splitlines() if path.is_file() else []
        for number, line in enumerate(lines, 1):
            if left := _LEFT.search(line):
                places.append(f"{name}, line {number}: {left[1]}")
            elif name == "reference.py" and _BLANK_FORMULA.search(line):
                places.append(f"{name}, line {number}: contains ... instead of a formula")
    return places


def launcher_problem(task: Task) -> str | None:
    """Differences between the launcher in baseline.cu and the one that task.toml describes."""
    if needs_launcher(task, task.baseline):
        missing = misnamed(task, task.baseline)
        return missing.replace("the file", "baseline.cu", 1) or None
    wanted = prototype(task)
    defined = functions(code(pieces(task.baseline)))
    launcher = next((f for f in defined if f.name == task.entry and f.c_linkage), None)
    if launcher is None:
        meant = did_you_mean(task.entry, [f.name for f in defined if f.name != task.entry])
        return f"baseline.cu does not define the launcher that task.toml describes: {wanted}{meant}"
    inner = wanted[wanted.index("(") + 1 : -1]
    expected = [plain(part) for part in inner.split(", ")]
    got = signature(launcher.parameters)
    if types(got) == types(expected):
        return None
    return (
        f"baseline.cu, line {launcher.line}: {_difference(task, got, expected)}: {task.entry} takes"
        f" ({', '.join(got)}), but task.toml describes {wanted}"
    )


def _difference(task: Task, got: Sequence[str], expected: Sequence[str]) -> str:
    """The parameters that only one of two launchers has; else those of other types; else none are,
    and the order is another."""
    ours, theirs = (dict(_named(parameter) for parameter in side) for side in (got, expected))
    tensors = [arg.name for arg in task.args]
    words = []
    for name in (name for name in ours if name not in theirs):
        tensor = with_stride(name, tensors)
        free = f' (strides = ["free", ...] of {tensor}?)' if tensor else ""
        words.append(f"task.toml has no {name}{free}")
    words += [f"baseline.cu has no {name}" for name in theirs if name not in ours]
    if not words:
        words = [
            f"{name} is {kind}, not {theirs[name]}"
            for name, kind in ours.items()
            if theirs[name] != kind
        ]
    return "; ".join(words) or "the parameters are in a different order"


def _named(parameter: str) -> tuple[str, str]:
    kind, name = parameter.rsplit(" ", 1)
    return name, kind
