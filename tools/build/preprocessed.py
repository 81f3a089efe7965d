"""A candidate's own lines after nvcc's preprocessor: macros expanded, pasted names joined.

nvcc makes two such texts of a source, one for the host compiler and one for the device compiler.
Text from headers is left out; each line keeps its number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path

SOURCE = "kernel.cu"
EXPANDED_BYTES = 2**21
"""Most characters of own lines that are kept: honest macros do not expand half a megabyte to more,
and the judge reads it all."""
PASSES = {"host": "kernel*.cpp4.ii", "device": "kernel*.cpp1.ii"}
"""nvcc's names (-keep) of what its two front ends read."""
_MARKER = re.compile(r'# (\d+) "([^"\n]*)"')
_SPACES = {"host": "__host__", "device": "__device__", "global": "__global__"}
_SPACE = re.compile(r"__attribute__\(\((host|device|global)\)\)")


def own_lines(text: Iterable[str]) -> str:
    """The lines of a preprocessed text that come from SOURCE, each at its line number there.

    Several lines of the text for one line of the source are joined. The guard refuses sources with
    lines that look like a marker. Text beyond EXPANDED_BYTES is cut.
    """
    lines: dict[int, list[str]] = {}
    number, own, size = 0, False, 0
    for line in text:
        if marker := _MARKER.match(line):
            number, own = int(marker[1]), marker[2] == SOURCE
            continue
        if own and (line := line.rstrip("\r\n")):
            lines.setdefault(number, []).append(line)
            size += len(line)
        number += 1
        if size > EXPANDED_BYTES:
            break
    spelt = "\n".join(" ".join(lines.get(i, ())) for i in range(1, max(lines, default=0) + 1))
    return _SPACE.sub(lambda match: _SPACES[match[1]], spelt)


def keep_expanded(folder: Path) -> None:
    """Write kernel.host.i and kernel.device.i beside nvcc's own files, if it kept those."""
    for name, pattern in PASSES.items():
        for path in sorted(folder.glob(pattern))[:1]:
            with path.open(errors="replace") as text:
                lines = iter(partial(text.readline, EXPANDED_BYTES + 1), "")
                (folder / f"kernel.{name}.i").write_text(own_lines(lines))
