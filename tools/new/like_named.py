"""What kernels and functions of the same files say of their parameters with a tensor's name.

Projects call a tensor the same on its way from the exported function to the kernel: there stand the
comments that give its shape, its element type, and whether it is const. What a launch really reads
and writes, a trial shows (launched.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from astra_chat.tools.new.source import (
    Function,
    Parameter,
    code,
    functions,
    macros_of,
    pieces,
)
from astra_chat.tools.new.stated import Shape, comment_shapes

_QUALIFIERS = re.compile(
    r"\b(const|volatile|__restrict__|__restrict|__grid_constant__|struct|typename)\b|[*&\[\]]"
)

_BLOCK = re.compile(r"<<<[^;]*?,\s*(\w+)\s*(?:,|>>>)")


@dataclass
class Alike:
    """What is known of a tensor by its name."""

    elements: list[str] = field(default_factory=list)
    """C types of its elements, kernels' first."""
    constant: bool | None = None
    """Whether all kernels take it as const; None where none takes it."""
    comments: list[Shape] = field(default_factory=list)


class LikeNamed:
    """Parameters of the functions that one function calls, of these sources."""

    def __init__(self, sources: Sequence[str], function: Function) -> None:
        """`function` is in the first of them; headers follow."""
        found: list[tuple[Function, str]] = []
        self._blocks = {name for source in sources for name in _BLOCK.findall(source)}
        words: dict[str, set[str]] = {}
        for source in sources:
            every = pieces(source)
            plain = code(every)
            for name, texts in macros_of(every).items():
                words.setdefault(name, set()).update(texts)
            for one in functions(plain):
                found.append((one, source))
                body = {p.text for p in plain[one.body : one.close]}
                words.setdefault(one.name, set()).update(body)
        own = code(pieces(sources[0]))[function.body : function.close]
        words.setdefault(function.name, set()).update(p.text for p in own)
        reached = _reached(function.name, words)
        kernels = [pair for pair in found if "__global__" in pair[0].returns]
        others = [pair for pair in found if "__global__" not in pair[0].returns]
        called = [pair for pair in (*kernels, *others) if pair[0].name in reached]
        self._functions = [pair for pair in called if pair[0] != function]

    def of(self, name: str) -> Alike:
        """What they say of the tensor that is called so."""
        known = Alike()
        for function, source, parameter in self._named(name):
            kind = element(parameter.type)
            if "__global__" in function.returns and "*" in parameter.type:
                constant = re.search(r"\bconst\b", parameter.type) is not None
                known.constant = constant and known.constant is not False
            if "*" in parameter.type and kind not in (*function.type_parameters, "void"):
                known.elements.append(kind)
            known.comments += comment_shapes(function, source).get(parameter.name, ())
        return known

    def is_block(self, name: str) -> bool:
        """Whether launches have it as their block: k<<<grid, name>>>."""
        return name in self._blocks

    def _named(self, name: str) -> Iterator[tuple[Function, str, Parameter]]:
        for function, source in self._functions:
            for parameter in function.parameters:
                if _bare(parameter.name) == _bare(name):
                    yield function, source, parameter


def element(declared: str) -> str:
    """The type of what a pointer points to: "const int64_t * __restrict__" is "int64_t"."""
    return " ".join(_QUALIFIERS.sub(" ", declared).split())


def _bare(name: str) -> str:
    """Its name without what projects put around it: x_, _x, x_ptr, d_x."""
    return re.sub(r"^(d|maybe)_(?=.)|_(ptr|arr|data|d)$", "", name.strip("_").lower())


def _reached(start: str, words: dict[str, set[str]]) -> set[str]:
    """The functions and macros that one names, and that these name."""
    found, new = {start}, {start}
    while new:
        new = {word for name in new for word in words[name] & words.keys()} - found
        found |= new
    return found
