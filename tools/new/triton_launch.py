"""What the user says of a Triton kernel's launch: the options of `astra-chat new`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from astra_chat.tools.task.expressions import parse
from astra_chat.tools.triton.compile import TYPES, Constant
from astra_chat.tools.types import DTypeName
from astra_vgpu.ground.errors import BadInput

_CONSTANT = re.compile(r"\s*(\w+)\s*=\s*(.*?)\s*(?:>=\s*(.*))?", re.DOTALL)


@dataclass(frozen=True)
class Choice:
    """A constant: one value, or the least of several that is at least `bound`."""

    values: tuple[Constant, ...]
    bound: str = ""
    """An expression in dims; empty where there is one value."""


@dataclass(frozen=True)
class TritonLaunch:
    """What Python's host code says of a launch."""

    grid: tuple[str, ...]
    """One to three expressions in dims and constants."""
    constants: Mapping[str, Choice]
    warps: int = 4
    stages: int | None = None


def launch_of(
    grid: str | None, constants: Sequence[str], warps: int, stages: int | None
) -> TritonLaunch | None:
    """What the user said: grid "n_rows, ceil_div(n, BLOCK)", constants "BLOCK=1024,2048 >= n". None
    without a grid. Raises BadInput."""
    if grid is None:
        if constants:
            raise BadInput("--constant requires --grid, from which Triton's machine code is made")
        return None
    axes = tuple(_axes(grid))
    if not 1 <= len(axes) <= 3:
        raise BadInput(
            f"--grid '{grid}': give one to three expressions, such as 'ceil_div(n, BLOCK)'"
        )
    for axis in axes:
        _parsed("--grid", axis)
    if warps not in (1, 2, 4, 8, 16, 32):
        raise BadInput(f"--warps {warps}: it must be a power of two up to 32")
    return TritonLaunch(axes, dict(map(_choice, constants)), warps, stages)


def dtypes_of(given: Sequence[str]) -> dict[str, DTypeName]:
    """ "y=int32" as the dtype of a tensor. Raises BadInput."""
    found: dict[str, DTypeName] = {}
    for text in given:
        name, _, dtype = text.partition("=")
        if dtype not in TYPES:
            raise BadInput(f"--dtype '{text}': write TENSOR=DTYPE, with one of {', '.join(TYPES)}")
        found[name] = dtype
    return found


def _axes(grid: str) -> Iterator[str]:
    """At commas that stand in no brackets."""
    depth, start = 0, 0
    for place, letter in enumerate(grid):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            yield grid[start:place].strip()
            start = place + 1
    yield grid[start:].strip()


def _choice(text: str) -> tuple[str, Choice]:
    form = "write NAME=VALUE, or NAME=1024,2048,4096>=n for the smallest that is at least n"
    found = _CONSTANT.fullmatch(text)
    if found is None:
        raise BadInput(f"--constant '{text}': {form}")
    try:
        values = tuple(ast.literal_eval(one.strip()) for one in found[2].split(","))
    except (ValueError, SyntaxError):
        raise BadInput(f"--constant '{text}': {form}") from None
    bound = found[3] or ""
    if bool(bound) != (len(values) > 1):
        raise BadInput(f"--constant '{text}': {form}")
    if bound:
        _parsed("--constant", bound)
        if not all(isinstance(one, int) for one in values):
            raise BadInput(f"--constant '{text}': only integers can be compared")
        values = tuple(sorted(values))
    return found[1], Choice(values, bound)


def _parsed(option: str, text: str) -> None:
    try:
        parse(text)
    except ValueError as error:
        raise BadInput(f"{option}: {error}") from None
