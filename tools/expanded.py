"""A candidate's own lines as nvcc's preprocessor leaves them: macros expanded, names pasted.

nvcc makes two such texts of a source: one for the host's compiler, one for the device's. Text that
headers bring along is left out; each line keeps its number.
"""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = "kernel.cu"
PASSES = {"host": "kernel*.cpp4.ii", "device": "kernel*.cpp1.ii"}
"""nvcc's names (-keep) of what its two front ends read."""
_MARKER = re.compile(r'# (\d+) "([^"\n]*)"')
_SPACES = {"host": "__host__", "device": "__device__", "global": "__global__"}
_SPACE = re.compile(r"__attribute__\(\((host|device|global)\)\)")


def own_lines(text: str) -> str:
    """The lines of SOURCE in a preprocessed text, each where it stands in the source.

    What several lines of the text say of one line of the source is joined. The guard sees to it
    that no line of a source looks like a marker.
    """
    lines: dict[int, str] = {}
    number, own = 0, False
    for line in text.splitlines():
        if marker := _MARKER.match(line):
            number, own = int(marker[1]), marker[2] == SOURCE
            continue
        if own and line:
            lines[number] = f"{lines[number]} {line}" if number in lines else line
        number += 1
    spelt = "\n".join(lines.get(i, "") for i in range(1, max(lines, default=0) + 1))
    return _SPACE.sub(lambda match: _SPACES[match[1]], spelt)


def keep_expanded(folder: Path) -> None:
    """Write kernel.host.i and kernel.device.i beside nvcc's own files, where it left those."""
    for name, pattern in PASSES.items():
        for path in sorted(folder.glob(pattern))[:1]:
            (folder / f"kernel.{name}.i").write_text(own_lines(path.read_text(errors="replace")))
