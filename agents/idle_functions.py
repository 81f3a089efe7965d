"""Functions of a source that no timed case runs: kernels that are not launched there, and what only
these call. What cannot be told for sure counts as run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from astra_chat.tools.cpp_tokens import Code, Token, tokens

LEAST_LINES = 4
"""Lines of a range at least: fewer are not worth leaving out."""
_TYPES = frozenset(("struct", "class", "union", "enum", "using", "typedef"))
_WITH_PARENTHESES = frozenset(
    ("__launch_bounds__", "__attribute__", "alignas", "__align__", "noexcept", "decltype")
)


@dataclass(frozen=True)
class Idle:
    """Lines that follow each other, from 1, both included: of functions, or the first directives of
    a file, which have no names."""

    first: int
    last: int
    names: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        what = f"{', '.join(self.names)}, not run in any timed case" if self.names else "headers"
        return f"// lines {self.first} to {self.last}: {what}"


@dataclass(frozen=True)
class _Item:
    """A declaration or definition of a namespace."""

    name: str
    """Name of a function; "" for anything else."""
    kernel: bool
    first: int
    last: int
    mentions: frozenset[str]


def idle_functions(source: str, launched: Iterable[str]) -> list[Idle]:
    """Returns the functions that no kernel of the names in `launched` needs, and the file's first
    directives; nothing where one of the names is not found in the source, or where that cannot be
    read."""
    code = Code(tokens(source))
    if any(token.kind == "bad" for token in code):
        return []
    items, wanted = list(_items(code)), set(launched)
    kernels = {item.name for item in items if item.kernel}
    if not wanted or not wanted <= kernels:
        return []
    idle = kernels - wanted
    always = {token.text for token in code if token.directive == "define"}
    while more := _only_of(items, idle, always):
        idle |= more
    return [*_headers(items), *_ranges(items, idle)]


def _headers(items: Sequence[_Item]) -> Iterator[Idle]:
    """The directives with which a file begins."""
    last = 0
    for item in items:
        if item.mentions:
            break
        last = item.last
    if last >= LEAST_LINES:
        yield Idle(1, last)


def _only_of(items: Sequence[_Item], idle: set[str], always: set[str]) -> set[str]:
    """Functions that are mentioned by idle ones and, but for themselves, by no other."""
    of_idle = {name for item in items if item.name in idle for name in item.mentions}
    functions = {item.name for item in items if item.name} - idle - always
    return {
        name
        for name in functions & of_idle
        if not any(name in item.mentions for item in items if item.name not in {*idle, name})
    }


def _ranges(items: Sequence[_Item], idle: set[str]) -> Iterator[Idle]:
    """Idle items together that stand on lines of their own with nothing else in between."""
    run: list[_Item] = []
    for before, item, after in zip([None, *items], items, [*items[1:], None], strict=False):
        alone = (before is None or before.last < item.first) and (
            after is None or item.last < after.first
        )
        if item.name in idle and item.name and alone:
            run.append(item)
            continue
        yield from _range(run)
        run = []
    yield from _range(run)


def _range(run: Sequence[_Item]) -> Iterator[Idle]:
    if run and run[-1].last - run[0].first + 1 >= LEAST_LINES:
        names = tuple(dict.fromkeys(item.name for item in run))
        yield Idle(run[0].first, run[-1].last, names)


def _items(code: Code) -> Iterator[_Item]:
    """Yields the items of the file and of its namespaces. A directive between them is an item,
    too."""
    at = 0
    while at < len(code):
        if code[at].directive:
            line = code[at].line
            while at < len(code) and code[at].directive and code[at].line == line:
                at += 1
            yield _Item("", False, line, line, frozenset())  # mentions nothing
            continue
        end, inside = _end(code, at)
        if inside is not None:
            at = inside
            continue
        yield _item(code[at:end])
        at = end


def _end(code: Code, start: int) -> tuple[int, int | None]:
    """Where the item behind `start` ends; or, of a namespace's opening, what comes behind it."""
    at = start = _declared(code, start)
    while at < len(code):
        text = code[at].text
        if text == "(":
            at = code.closing(at)
        elif text == "{":
            head = [token.text for token in code[start:at]]
            if "namespace" in head or ('"C"' in head and "(" not in head):
                return at, at + 1
            at = code.closing(at)
            if _is_function(head):
                return at + 1, None
        elif text in (";", "}"):
            return at + 1, None
        at += 1
    return len(code), None


def _is_function(head: Sequence[str]) -> bool:
    """What stands before a brace: of a function there are parameters, and no sign before them."""
    before = head[: head.index("(")] if "(" in head else None
    return before is not None and "=" not in before and not _TYPES.intersection(before)


def _declared(code: Sequence[Token], start: int) -> int:
    """What is declared, behind the head of a template."""
    while start + 1 < len(code) and code[start].text == "template" and code[start + 1].text == "<":
        start = _behind(code, start + 1, "<", ">")
    return start


def _item(code: Sequence[Token]) -> _Item:
    names = frozenset(token.text for token in code if token.kind == "name")
    last = max(token.line for token in code)
    return _Item(_name(code), "__global__" in names, code[0].line, last, names)


def _name(code: Sequence[Token]) -> str:
    """Returns the name of the function that is declared, which stands before its parameters; ""
    where something else is declared."""
    at = _declared(code, 0)
    if at < len(code) and code[at].text in _TYPES:
        return ""
    while at < len(code) and code[at].text not in ("{", ";", "="):
        if code[at].text == "(":
            before = code[at - 1] if at else None
            return before.text if before is not None and before.kind == "name" else ""
        if code[at].text in _WITH_PARENTHESES and at + 1 < len(code) and code[at + 1].text == "(":
            at = _behind(code, at + 1, "(", ")")
        elif at + 1 < len(code) and code[at + 1].text == "<" and code[at].kind == "name":
            end = _behind(code, at + 1, "<", ">")
            if end < len(code) and code[end].text == "(":
                return code[at].text
            at = end
        else:
            at += 1
    return ""


def _behind(code: Sequence[Token], start: int, opening: str, closing: str) -> int:
    """What follows the bracket that closes the one at `start`."""
    depth = 0
    for at in range(start, len(code)):
        depth += (code[at].text == opening) - (code[at].text == closing)
        if depth == 0:
            return at + 1
    return len(code)
