"""What nvcc says: errors with the author's lines, and ptxas' report on each kernel."""

from __future__ import annotations

import re
from itertools import zip_longest

from astra_chat.tools.types import Resources

LOG_LINES = 40
LOG_COLUMNS = 300


def readable_log(log: str, source: str) -> str:
    """nvcc's errors with the source line each one names, once; warnings and noise cut away."""
    lines = source.split("\n")
    said, shown = log.splitlines(), list[str]()
    for line, following in zip_longest(said, said[1:], fillvalue=""):
        if re.match(r"^(ptxas info|nvcc info|\d+ errors? detected|Remark)", line.strip()):
            continue
        named = re.match(r"^kernel\.cu\((\d+)\): (.*)", line)
        shown.append(f"line {named[1]}: {named[2]}" if named else line)
        text = lines[int(named[1]) - 1].strip() if named and int(named[1]) <= len(lines) else ""
        if text and following.strip() != text:
            shown.append(f"    {text}")
    first = next((i for i, text in enumerate(shown) if "error" in text.lower()), 0)
    cut = [_cut(text) for text in shown[first:] if text.strip()][:LOG_LINES]
    return "\n".join(cut) or "nvcc failed without a message"


def _cut(line: str) -> str:
    return line if len(line) <= LOG_COLUMNS else line[:LOG_COLUMNS] + " ..."


_PTXAS = re.compile(
    r"^ptxas info\s*: Compiling entry function '(?P<kernel>\S+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.DOTALL | re.MULTILINE,
)


def parse_ptxas(log: str) -> tuple[Resources, ...]:
    """Registers, shared memory and spills of every kernel, from `ptxas -v`."""
    kernels = []
    for match in _PTXAS.finditer(log):
        shared = re.search(r"(\d+) bytes smem", match["rest"])
        kernels.append(
            Resources(
                kernel=match["kernel"],
                registers=int(match["registers"]),
                static_shared_bytes=int(shared[1]) if shared else 0,
                spill_bytes=int(match["stores"]) + int(match["loads"]),
                stack_bytes=int(match["stack"]),
            )
        )
    return tuple(kernels)
