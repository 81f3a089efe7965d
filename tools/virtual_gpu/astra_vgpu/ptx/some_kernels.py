"""A PTX text without the kernels that nobody launches: a file may hold a hundred, and parsing them
takes seconds."""

from __future__ import annotations

import re
from collections.abc import Collection

_PARTS = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|"[^"\n]*")|(?P<brace>[{}])
      |(?P<kernel>(?:\.(?:visible|weak)\s+)?\.entry\s+(?P<name>[\w$]+))""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


def with_kernels(text: str, wanted: Collection[str]) -> str:
    """The text, line by line where it was, with these kernels only; functions and variables
    stay."""
    kept: list[str] = []
    depth, begin, end = 0, -1, 0
    for part in _PARTS.finditer(text):
        if part["brace"]:
            depth += 1 if part["brace"] == "{" else -1
            if depth == 0 and begin >= 0:
                kept += [text[end:begin], "\n" * text.count("\n", begin, part.end())]
                begin, end = -1, part.end()
        elif depth == 0 and part["kernel"] and part["name"] not in wanted:
            begin = part.start()
    return "".join([*kept, text[end:]])
