"""What is done with a pointer or tensor: read, written or both, through helpers and launches.

A name is followed from where it is given through variables made from it, helper functions and
launched kernels to the accesses themselves. What leaves the files is unclear, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from astra_chat.tools.new.brackets import (
    CASTS,
    CLOSE,
    NO_CALLS,
    OPEN,
    argument_at,
    call_at,
    enclosing,
    partner,
)
from astra_chat.tools.new.source import Function, Piece, code, functions, pieces, spaced
from astra_chat.tools.new.stated import CHECKS

_READS = re.compile(r"_*(ld|ldg|ldcg|ldcs|ldlu|ldca|load|.*_load.*|load_.*|prefetch.*|fetch.*)")
_WRITES = re.compile(r"_*(st|stcs|stcg|stwt|stwb|store|.*_store.*|store_.*)")
_COPIES = ("memcpy", "cudaMemcpyAsync", "cudaMemsetAsync", "cudaMemset2DAsync", "memset")
_NO_ACCESS = re.compile(
    r"device_of|get_device|\w*Guard|\w*DISPATCH\w*|(empty|zeros)_like|move|options"
)
"""Calls of a framework that touch no element."""
_POINTER_METHODS = re.compile(r"(mutable_|const_)?data(_ptr)?|value")
_QUALIFIERS = re.compile(r"\b(const|volatile|__restrict__|__restrict|struct|typename)\b|[*&\[\]]")


@dataclass
class Uses:
    """What is known of a pointer."""

    reads: bool = False
    writes: bool = False
    unclear: set[str] = field(default_factory=set)
    """Functions that get it and that the files do not define."""
    loose: bool = False
    """A function takes it as a pointer to what is not const."""
    elements: list[str] = field(default_factory=list)
    """C types of its elements as the places name them, the first one first."""
    parameters: list[tuple[str, str]] = field(default_factory=list)
    """Functions and their parameters that it is given to, the first one first."""

    def add(self, other: Uses) -> None:
        self.reads |= other.reads
        self.writes |= other.writes
        self.unclear |= other.unclear
        self.loose |= other.loose
        self.elements += [e for e in other.elements if e not in self.elements]
        self.parameters += [p for p in other.parameters if p not in self.parameters]


def element(declared: str) -> str:
    """The type of what a pointer points to: "const int64_t * __restrict__" is "int64_t"."""
    return " ".join(_QUALIFIERS.sub(" ", declared).split())


class Tracer:
    """Follows names through the functions of one source."""

    def __init__(self, sources: Sequence[str]) -> None:
        """`sources` are a file and the headers that it includes."""
        self._by_name: dict[str, Function] = {}
        self._texts: dict[str, list[str]] = {}
        self._macros: dict[str, list[str]] = {}
        self._known: dict[tuple[str, int], Uses] = {}
        for source in reversed(sources):
            all_pieces = pieces(source)
            plain = code(all_pieces)
            self._macros |= _macros(all_pieces)
            for function in functions(plain):
                self._by_name[function.name] = function
                body = plain[function.body : function.close + 1]
                self._texts[function.name] = [piece.text for piece in body]

    def of(self, function: Function, name: str) -> Uses:
        """What `function` and those that it calls do with its parameter or variable."""
        texts = self._body(function)
        if name not in texts:
            return Uses()
        pointers, references = _aliases(texts, name)
        uses = Uses()
        for index, text in enumerate(texts):
            if texts[index - 1] in (".", "->", "::") or _is_declaration(texts, index):
                continue
            if text in references:
                _access(uses, texts, index, index + 1)
            elif text in pointers:
                self._use(uses, texts, index)
        return uses

    def _body(self, function: Function) -> list[str]:
        """Tokens of a body, then those of the macros that it calls."""
        texts = self._texts[function.name]
        called = [name for name in self._macros if name in texts]
        for name in called:
            called += [n for n in self._macros if n in self._macros[name] and n not in called]
        return [*texts, *(t for name in called for t in (";", *self._macros[name])), ";"]

    def _use(self, uses: Uses, texts: Sequence[str], index: int) -> None:
        """Climb from the name to what is done with its value."""
        start, end = _own(uses, texts, index)
        while start >= 0:
            if texts[end] == "[":
                end = _after_fields(texts, partner(texts, end) + 1)
                if texts[start - 1] != "&" or not _is_unary(texts, start - 1):
                    return self._element(uses, texts, start, end)
                start -= 1
            elif texts[start - 1] == "*":
                end += 2 * (texts[end : end + 2] in (["+", "+"], ["-", "-"]))
                return self._element(uses, texts, start - 1, end)
            elif texts[start - 1] == ")" and texts[start - 2] == "*":
                start = partner(texts, start - 1)
                uses.elements.append(spaced(texts[start + 1 : partner(texts, start) - 1]))
            else:
                opened = enclosing(texts, start)
                if opened < 0 or texts[opened] != "(":
                    return None
                name = call_at(texts, opened)
                if name and CASTS.fullmatch(texts[name[0]]):
                    cast = element(spaced(texts[name[0] + 2 : opened - 1]))
                    uses.elements.append(cast)
                    start, end = name[0], partner(texts, opened) + 1
                elif name:
                    return self._call(uses, texts, name, opened, start)
                elif texts[opened - 1] in NO_CALLS:
                    return None
                else:
                    start, end = opened, partner(texts, opened) + 1
        return None

    def _element(self, uses: Uses, texts: Sequence[str], start: int, end: int) -> None:
        """An element: assigned, changed, or read; given by reference to a function, both."""
        referred = texts[start - 1] == "=" and _declared(texts, start - 1) == "&"
        if referred and self._texts:  # a tracer of no source only looks at one place
            return
        opened = enclosing(texts, start)
        name = call_at(texts, opened) if opened >= 0 and texts[opened] == "(" else None
        function = self._by_name.get(texts[name[0]]) if name else None
        place = argument_at(texts, opened, start)
        if function and place < len(function.parameters):
            kind = function.parameters[place].type
            if "&" in kind and "const" not in kind.split():
                uses.reads = uses.writes = True
                return
        _access(uses, texts, start, end)

    def _call(
        self, uses: Uses, texts: Sequence[str], name: tuple[int, int], opened: int, start: int
    ) -> None:
        """What the called function does with this argument."""
        at, place = name[0], argument_at(texts, opened, start)
        called = texts[at]
        if CHECKS.fullmatch(called):
            return
        if called in ("cudaLaunchKernelEx", "cudaLaunchKernelExC"):
            arguments = [t for t in texts[opened : partner(texts, opened)] if t in self._by_name]
            called, place = (arguments[0], place - 2) if arguments else (called, place)
        if called in self._by_name:
            uses.add(self._of_parameter(self._by_name[called], place))
        elif called in _COPIES:
            uses.writes |= place == 0
            uses.reads |= place > 0
        elif called.startswith("atomic") or called == "red":
            uses.reads = uses.writes = True
        elif _READS.fullmatch(called):
            uses.reads = True
        elif _WRITES.fullmatch(called):
            uses.writes = True
        elif called not in self._macros and not _NO_ACCESS.fullmatch(called):
            uses.unclear.add(called)

    def _of_parameter(self, function: Function, place: int) -> Uses:
        key = (function.name, place)
        if key not in self._known:
            self._known[key] = Uses()  # of one that calls itself
            if 0 <= place < len(function.parameters):
                self._known[key] = self._parameter(function, place)
        return self._known[key]

    def _parameter(self, function: Function, place: int) -> Uses:
        parameter = function.parameters[place]
        uses = self.of(function, parameter.name)
        uses.parameters.insert(0, (function.name, parameter.name))
        if "*" in parameter.type:
            kind = element(parameter.type)
            if kind not in function.type_parameters and kind != "void":
                uses.elements.insert(0, kind)
            uses.elements = [e for e in uses.elements if e not in function.type_parameters]
            if re.search(r"\bconst\b", parameter.type):
                uses.reads, uses.writes, uses.unclear = True, False, set()
            else:
                uses.loose = True
        return uses


def _macros(all_pieces: Sequence[Piece]) -> dict[str, list[str]]:
    """Tokens of each #define, without its name."""
    found: dict[str, list[str]] = {}
    name, fresh = "", False
    for piece in all_pieces:
        if piece.token.kind == "directive":
            name, fresh = "", piece.text == "define"
        elif piece.token.directive == "define":
            if fresh:
                name, fresh = piece.text, False
                found[name] = []
            else:
                found[name].append(piece.text)
    return found


def _aliases(texts: Sequence[str], name: str) -> tuple[set[str], set[str]]:
    """Variables that hold the pointer, or that refer to one of its elements."""
    pointers, references = {name}, set[str]()
    grown = True
    while grown:
        grown = False
        for at in _assignments(texts):
            made, kind = texts[at - 1], _declared(texts, at)
            if made in pointers | references or not kind:
                continue
            how = _taken(texts, at + 1, pointers)
            if how == "pointer" and kind != "&":
                pointers.add(made)
                grown = True
            elif how == "element" and kind == "&":
                references.add(made)
                grown = True
    return pointers, references


def _assignments(texts: Sequence[str]) -> Iterator[int]:
    for at, text in enumerate(texts):
        before, after = texts[at - 1], texts[at + 1] if at + 1 < len(texts) else ""
        if text == "=" and after != "=" and re.fullmatch(r"\w+", before):
            yield at


def _declared(texts: Sequence[str], at: int) -> str:
    """How the name before this = is declared: "*", "&", "auto", "=" if it is not; "" by value."""
    start = at - 1
    while start > 0 and texts[start - 1] not in (";", "{", "}", "(", ","):
        start -= 1
    head = texts[start : at - 1]
    if not head:
        return "="
    if head[-1] in (".", "->") or not re.fullmatch(r"\w+", head[0]):
        return ""
    return next((kind for kind in ("*", "&", "auto") if kind in head), "")


def _is_declaration(texts: Sequence[str], index: int) -> bool:
    made = texts[index + 1 : index + 2] == ["="] and texts[index + 2 : index + 3] != ["="]
    return made and _declared(texts, index + 1) in ("*", "&", "auto")


def _taken(texts: Sequence[str], start: int, pointers: set[str]) -> str:
    """Whether an initializer is the pointer itself, or an element of it."""
    end, deep = start, 0
    while end < len(texts) and (deep > 0 or texts[end] not in (";", ",", ")", "}")):
        deep += (texts[end] in OPEN) - (texts[end] in CLOSE)
        end += 1
    for index in range(start, end):
        if texts[index] in pointers and texts[index - 1] not in (".", "->", "::"):
            opened = enclosing(texts, index)
            called = call_at(texts, opened) if opened >= start and texts[opened] == "(" else None
            if called and not CASTS.fullmatch(texts[called[0]]):
                return ""
            probe = Uses()
            Tracer(())._use(probe, texts, index)
            if probe.reads or probe.writes or probe.unclear:
                return "element" if not probe.unclear else ""
            after = texts[index + 1]
            if after in (".", "->") and not _POINTER_METHODS.fullmatch(texts[index + 2]):
                return ""
            return "pointer"
    return ""


def _own(uses: Uses, texts: Sequence[str], index: int) -> tuple[int, int]:
    """The name with the calls that give its pointer: x.data_ptr<float>(); -1 for other members."""
    end = index + 1
    while texts[end] in (".", "->"):
        method = texts[end + 1]
        if not _POINTER_METHODS.fullmatch(method):
            return -1, end
        end += 2
        if texts[end] == "<":
            close = texts.index(">", end)
            uses.elements.append(element(spaced(texts[end + 1 : close])))
            end = close + 1
        if texts[end] == "(":
            end = partner(texts, end) + 1
    return index, end


def _access(uses: Uses, texts: Sequence[str], start: int, end: int) -> None:
    """Record whether an element is assigned, changed or read."""
    after = list(texts[end : end + 3])
    before = list(texts[max(0, start - 2) : start])
    stepped = ["+", "+"], ["-", "-"]
    if after[:1] == ["="] and after[1:2] != ["="]:
        uses.writes = True
    elif (after[:1] and after[0] in "+-*/%&|^" and after[1:2] == ["="]) or (
        after[:2] in stepped or before in stepped
    ):
        uses.reads = uses.writes = True
    else:
        uses.reads = True


def _after_fields(texts: Sequence[str], end: int) -> int:
    """Past members and further subscripts of an element."""
    while texts[end] in (".", "->", "["):
        end = partner(texts, end) + 1 if texts[end] == "[" else end + 2
    return end


def _is_unary(texts: Sequence[str], at: int) -> bool:
    before = texts[at - 1]
    return before in ("return",) or not re.fullmatch(r"\w+|\)|\]", before)
