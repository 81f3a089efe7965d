"""Kernel text, compiler output and others' words inside a prompt: data that cannot leave its place.

A block is fenced by more backticks than it holds in a row; words become one line. What stands
outside of fences is ours, section titles and the last line of a prompt above all.
"""

from __future__ import annotations

import re

RUN = re.compile(r"`+")


def fenced(text: str, kind: str = "cuda") -> str:
    """A block that ends where we end it, whatever the text says."""
    longest = max((len(run) for run in RUN.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{kind}\n{text}{end}{fence}"


def one_line(text: str) -> str:
    """Words that begin no line of their own."""
    return " ".join(text.split())


def report(text: str) -> str:
    """A finding: its first line is the judge's, what follows may quote compiler or kernel."""
    first, _, rest = text.partition("\n")
    return f"{one_line(first)}\n{fenced(rest, 'text')}" if rest.strip() else one_line(first)
