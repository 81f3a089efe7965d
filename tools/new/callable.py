"""What callers of a kernel file use of it: the functions that it exports."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from astra_chat.tools.new import c_launcher, framework
from astra_chat.tools.new.source import Function, code, functions, opens_scope, pieces
from astra_chat.tools.task.folder import Task


def callable_functions(text: str) -> dict[str, Function]:
    """Functions by the names that callers use: registered operators, else host functions that take
    tensors, else launchers in plain C++."""
    plain = code(pieces(text))
    defined = functions(plain)
    if exported := framework.exports(plain, defined):
        return {one.name: one.function for one in exported}
    if host := framework.host_functions(plain, defined):
        return {one.name: one.function for one in host}
    return {one.name: one for one in c_launcher.launchers(defined, pieces(text))}


def other_functions(task: Task, text: str) -> dict[str, Function]:
    """Functions that the file of a task with a [binding] exports besides the one that is called:
    no call of the task runs them."""
    binding = task.binding
    if binding is None or binding.launcher:
        return {}
    called = binding.name
    return {name: one for name, one in callable_functions(text).items() if name != called}


_ATTRIBUTES = frozenset({"alignas", "__align__", "__attribute__", "final"})


class HostText:
    """A file's host functions, types and constants as tokens, without comments and directives."""

    def __init__(self, text: str) -> None:
        self._plain = code(pieces(text))
        self._functions = functions(self._plain)
        self._by_name: dict[str, list[list[str]]] = {}
        for one in self._functions:
            if "__global__" not in one.returns:
                inside = (p for p in self._plain if one.start <= p.start < one.end)
                self._by_name.setdefault(one.name, []).append([p.text for p in inside])
        for words in self._declarations():
            if name := _declared(words):
                self._by_name.setdefault(name, []).append(words)

    def reached(self, name: str) -> Mapping[str, Sequence[str]]:
        """What a function runs of the file: the tokens of it and of all that it names, by name."""
        found, wanted = dict[str, list[str]](), [name]
        while wanted:
            if (one := wanted.pop()) not in found and one in self._by_name:
                found[one] = [word for words in self._by_name[one] for word in words]
                wanted += found[one]
        return found

    def line(self, name: str) -> int:
        """Where the function is defined; 0 where it is not."""
        return next((one.line for one in self._functions if one.name == name), 0)

    def _declarations(self) -> Iterator[list[str]]:
        """Statements outside of functions: types, constants, declarations."""
        places = [place for one in self._functions for place in (one.start, one.end)]
        words, depth = list[str](), 0
        for piece in self._plain:
            if bisect_right(places, piece.start) % 2:  # in a function
                words = []
                continue
            scope = piece.text == "{" and opens_scope(words)
            if depth == 0 and (scope or piece.text == "}"):
                words = []
                continue
            words.append(piece.text)
            depth += (piece.text == "{") - (piece.text == "}")
            if depth == 0 and piece.text == ";":
                yield words
                words = []


def _declared(words: Sequence[str]) -> str:
    """The name that a statement declares; "" for none. What is between < and > are arguments of
    templates: PackedPair<BFloat16> declares PackedPair."""
    plain = list(_outside_angles(words))
    plain = plain[plain[:1] == ["template"] :]
    if plain and plain[0] in ("struct", "class", "enum", "union"):
        names = [w for w in _outside_brackets(plain[1:]) if w != "class"]
        return next((w for w in names if w.isidentifier() and w not in _ATTRIBUTES), "")
    ends = [plain.index(end) for end in ("=", ";", "{", "[", "(") if end in plain]
    return next((w for w in reversed(plain[: min(ends, default=0)]) if w.isidentifier()), "")


def _outside_angles(words: Sequence[str]) -> Iterator[str]:
    """Words up to the first brace or =, without the arguments of templates, and what follows."""
    depth = 0
    for at, word in enumerate(words):
        if depth == 0 and word in ("{", "=", ";"):
            yield from words[at:]
            return
        if set(word) <= {"<", ">"}:
            depth = max(0, depth + word.count("<") - word.count(">"))
        if depth == 0 and word not in (">", ">>"):
            yield word


def _outside_brackets(words: Sequence[str]) -> Iterator[str]:
    """Words of a type's head, without the arguments of its attributes."""
    depth = 0
    for word in words[: words.index("{") if "{" in words else None]:
        depth += (word in "([") - (word in ")]")
        if depth == 0:
            yield word
