"""Two variants of a source as one: each in a namespace, and a launcher that chooses by extents."""

from __future__ import annotations

import re

from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import parameters, prototype

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[^\n]*$", re.MULTILINE)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_LINKAGE = re.compile(r'extern\s+"C"')
_MARK = re.compile(r"//\s*(tune|require):")


def merged(task: Task, below: str, above: str, condition: str) -> str | None:
    """A source whose launcher calls that of `below` where the condition holds, else that of
    `above`. None where this cannot be said of a source: where it gives C linkage to anything but
    its launcher."""
    parts = [_part(task, source, number) for number, source in enumerate((below, above))]
    if None in parts:
        return None
    names = ", ".join(name for _, name in parameters(task))
    includes = dict.fromkeys(_INCLUDE.findall(below) + _INCLUDE.findall(above))
    return "\n".join(
        [
            "// Two choices of the same constants: which of them is faster depends on the shape.",
            *includes,
            "",
            *map(str, parts),
            f"{prototype(task)} {{",
            f"  if ({condition}) return choice_0::{task.entry}_0({names});",
            f"  return choice_1::{task.entry}_1({names});",
            "}",
            "",
        ]
    )


def _part(task: Task, source: str, number: int) -> str | None:
    """One variant in its namespace; its macros end with it, and its marks are comments."""
    body = _INCLUDE.sub("", source)
    if len(_LINKAGE.findall(body)) != 1 or re.search(r'extern\s+"C"\s*\{', body):
        return None
    body = _LINKAGE.sub("static", body)
    body = re.sub(rf"\b{re.escape(task.entry)}\b", f"{task.entry}_{number}", body)
    body = _MARK.sub(r"// \1 was:", body)
    undone = [f"#undef {name}" for name in dict.fromkeys(_DEFINE.findall(body))]
    lines = [f"namespace choice_{number} {{", body.strip(), *undone, f"}}  // choice_{number}", ""]
    return "\n".join(lines)
