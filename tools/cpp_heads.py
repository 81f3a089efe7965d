"""Heads of C++ functions and calls, in lines of a width that people read."""

from __future__ import annotations

from collections.abc import Sequence

COLUMNS = 100


def head(start: str, parameters: Sequence[str], end: str) -> list[str]:
    """Lines of a function's head, wrapped at the column of its bracket."""
    lines, margin = [f"{start}("], " " * (len(start) + 1)
    for index, parameter in enumerate(parameters):
        word = parameter + (", " if index + 1 < len(parameters) else f"){end}")
        if len(lines[-1]) + len(word.rstrip()) > COLUMNS and lines[-1].strip():
            lines[-1] = lines[-1].rstrip()
            lines.append(margin)
        lines[-1] += word
    return lines
