"""Where a source asks for its own file's name: it may print it, and nothing else.

A source is judged under one name and used under others, so nothing may depend on __FILE__. Error
checks print it: in fprintf itself, or through a macro or a function of the source's own, such as
check(error, __FILE__, __LINE__).
"""

from __future__ import annotations

from collections.abc import Iterator

from astra_chat.tools.cpp_tokens import Code
from astra_chat.tools.types import Finding

PRINTING = frozenset("printf fprintf __assert_fail".split())
DEEPEST = 4
"""Calls through which the name may go before it is printed."""
_WHAT = "__FILE__: it may only be printed, because its text differs from build to build"


def file_names(code: Code) -> Iterator[Finding]:
    """Every __FILE__ that does more than to be printed."""
    places = [index for index, token in enumerate(code) if token.text == "__FILE__"]
    if not places:
        return
    calls = _Calls(code)
    for index in places:
        if not calls.only_printed(index, DEEPEST):
            yield Finding(line=code[index].line, what=_WHAT)


def without_those_of_assert(code: Code) -> Code:
    """The expanded text less the `__builtin_FILE()` that assert of newer C libraries prints.

    Older ones say __FILE__ there. No source may name either function itself (rules.py).
    """
    mine = [
        index
        for index, token in enumerate(code)
        if token.text == "__builtin_FILE"
        and [after.text for after in code[index + 1 : index + 3]] == ["(", ")"]
        and code[index - 1].text == ","
        and code[code.around(index) - 1].text == "__assert_fail"
    ]
    if not mine:
        return code
    left_out = {place for index in mine for place in (index, index + 1, index + 2)}
    return Code(token for place, token in enumerate(code) if place not in left_out)


class _Calls:
    """Which call a token is a whole argument of, and what becomes of arguments."""

    def __init__(self, code: Code) -> None:
        self._code = code

    def only_printed(self, index: int, depth: int) -> bool:
        """Whether the token at `index` is a whole argument, and is printed."""
        before, after = self._text(index - 1), self._text(index + 1)
        opening = self._code.around(index)
        if before not in ("(", ",") or after not in (")", ",") or self._text(opening) != "(":
            return False
        callee = self._code[opening - 1] if opening > 0 else None
        if callee is None or callee.kind != "name" or depth == 0:
            return False
        if callee.text in PRINTING:
            return True
        which = self._position(opening, index)
        bodies = list(self._definitions(callee.text))
        return bool(bodies) and all(self._printed_in(*body, which, depth) for body in bodies)

    def _text(self, index: int) -> str:
        return self._code[index].text if 0 <= index < len(self._code) else ""

    def _position(self, opening: int, index: int) -> int:
        """Which argument of the call it is, from 0."""
        return len(self._code.arguments(opening, index)) - 1

    def _definitions(self, name: str) -> Iterator[tuple[list[str], int, int]]:
        """Yields for every macro and function of that name its parameters, and where its body
        begins and ends."""
        for index, token in enumerate(self._code):
            if token.text != name or self._text(index + 1) != "(":
                continue
            close = self._code.closing(index + 1)
            names = [
                next((t.text for t in reversed(words) if t.kind == "name"), "...")
                for words in self._code.arguments(index + 1, close)
            ]
            if self._code[index - 1].kind == "directive" and self._text(index - 1) == "define":
                end = close
                while end + 1 < len(self._code) and self._inside(end + 1, token.line):
                    end += 1
                yield names, close + 1, end + 1
            elif self._text(close + 1) == "{" and not token.directive:
                yield names, close + 2, self._code.closing(close + 1)

    def _inside(self, index: int, line: int) -> bool:
        """Whether it belongs to the directive that stands before it."""
        token = self._code[index]
        return bool(token.directive) and token.kind != "directive" and token.line >= line

    def _printed_in(self, names: list[str], start: int, end: int, which: int, depth: int) -> bool:
        """Whether this body does nothing with its parameter `which` but print it."""
        if which >= len(names):
            which = len(names) - 1
        name = "__VA_ARGS__" if names[which] == "..." else names[which]
        uses = [i for i in range(start, end) if self._code[i].text == name]
        return all(self.only_printed(index, depth - 1) for index in uses)
