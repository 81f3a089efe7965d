"""What is done with a pointer or tensor: read, written or both, through helpers and launches.

A name is followed from where it is given through variables made from it, helper functions and
launched kernels to the accesses themselves. What leaves the files is unclear, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from astra_chat.tools.new.accesses import (
    POINTER_METHODS,
    Uses,
    after_fields,
    data_of,
    element,
    is_unary,
    record_access,
)
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
from astra_chat.tools.new.source import (
    Function,
    code,
    functions,
    macros_of,
    pieces,
    spaced,
)
from astra_chat.tools.new.stated import CHECKS

_READS = re.compile(r"_*(ld|ldg|ldcg|ldcs|ldlu|ldca|load|.*_load.*|load_.*|prefetch.*|fetch.*)")
_WRITES = re.compile(r"_*(st|stcs|stcg|stwt|stwb|store|.*_store.*|store_.*)")
_COPIES = ("memcpy", "cudaMemcpyAsync", "cudaMemsetAsync", "cudaMemset2DAsync", "memset")
_NO_ACCESS = re.compile(
    r"device_of|get_device|\w*Guard|\w*DISPATCH\w*|(empty|zeros)_like|move|options"
)
"""Calls of a framework that touch no element."""


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
            self._macros |= macros_of(all_pieces)
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
                record_access(uses, texts, index, index + 1)
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
        start, end = data_of(uses, texts, index)
        while start >= 0:
            if texts[end] == "[":
                end = after_fields(texts, partner(texts, end) + 1)
                if texts[start - 1] != "&" or not is_unary(texts, start - 1):
                    return self._element(uses, texts, start, end)
                start -= 1
            elif texts[start - 1] == "*":
                end += 2 * (texts[end : end + 2] in (["+", "+"], ["-", "-"]))
                return self._element(uses, texts, start - 1, end)
            elif texts[start - 1] == ")" and texts[start - 2] == "*":
                close, start = start - 1, partner(texts, start - 1)
                uses.elements.append(spaced(texts[start + 1 : close - 1]))
            else:
                start, end = self._outward(uses, texts, start)
        return None

    def _outward(self, uses: Uses, texts: Sequence[str], start: int) -> tuple[int, int]:
        """Out of the brackets around a pointer: the expression that they make, or -1 where they are
        a call, a list or nothing, which is recorded."""
        opened = enclosing(texts, start)
        if opened < 0 or texts[opened] == "[" or texts[opened - 1] in NO_CALLS:
            return -1, opened
        if texts[opened] == "{":
            self._packed(uses, texts, opened, start)
            return -1, opened
        name = call_at(texts, opened)
        if name is None:
            return opened, partner(texts, opened) + 1
        if not CASTS.fullmatch(texts[name[0]]):
            self._call(uses, texts, name, opened, start)
            return -1, opened
        uses.elements.append(element(spaced(texts[name[0] + 2 : opened - 1])))
        return name[0], partner(texts, opened) + 1

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
        record_access(uses, texts, start, end)

    def _call(
        self, uses: Uses, texts: Sequence[str], name: tuple[int, int], opened: int, start: int
    ) -> None:
        """What the called function does with this argument."""
        at, place = name[0], argument_at(texts, opened, start)
        called = texts[at]
        if CHECKS.fullmatch(called):
            return
        if called in ("cudaLaunchKernelEx", "cudaLaunchKernelExC"):
            called, place = self._launched(texts, opened) or called, place - 2
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

    def _packed(self, uses: Uses, texts: Sequence[str], opened: int, start: int) -> None:
        """An element of void* args[] = {&x, ...}, which a cudaLaunchKernel gets."""
        if texts[opened - 1] != "=" or texts[opened - 2] != "]":
            return
        array, place = texts[opened - 4], argument_at(texts, opened, start)
        for index, text in enumerate(texts):
            if text == "cudaLaunchKernel" and texts[index + 1] == "(":
                inside = texts[index + 1 : partner(texts, index + 1)]
                kernel = self._launched(texts, index + 1)
                if array in inside and kernel:
                    uses.add(self._of_parameter(self._by_name[kernel], place))

    def _launched(self, texts: Sequence[str], opened: int) -> str:
        """The kernel among the arguments of a launch, by its name or in a variable."""
        inside = texts[opened : partner(texts, opened)]
        for text in inside:
            if text in self._by_name:
                return text
        for text in inside:
            for at in _assignments(texts):
                if texts[at - 1] == text:
                    named = [t for t in texts[at : texts.index(";", at)] if t in self._by_name]
                    if named:
                        return named[0]
        return ""

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
        return uses


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
            if after in (".", "->") and not POINTER_METHODS.fullmatch(texts[index + 2]):
                return ""
            return "pointer"
    return ""
