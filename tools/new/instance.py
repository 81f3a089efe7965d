"""A function with its template arguments, or a static member function, as callers of it spell it:
Kernel<float, 4>::run. No function of a file is exported by such a name, so the user gives it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from astra_chat.tools.new.draft import dtype_named
from astra_chat.tools.new.framework import TENSOR
from astra_chat.tools.new.source import (
    Function,
    Piece,
    class_name,
    code,
    functions,
    opens_scope,
    pieces,
    spaced,
    split,
    template_parameters,
)
from astra_chat.tools.types import C_TYPES
from astra_vgpu.ground.errors import BadInput


@dataclass(frozen=True)
class Instance:
    """A function that was found by its spelt name."""

    function: Function
    called: str
    """Its name with namespaces and arguments, as [binding] has it."""
    source: str
    """The file for the reader: arguments stand where the function has template parameters."""
    signature: str = ""
    """Its type where another function has the same name; else ""."""


def is_spelt(name: str) -> bool:
    """Whether a name has arguments or a scope."""
    return "<" in name or "::" in name


def instance_of(name: str, source: str, headers: Mapping[str, str]) -> Instance:
    """The function of a file that `name` means. Raises BadInput where there is none."""
    plain = code(pieces(source))
    parts = _parts(name.lstrip("&"))
    path = [part for part, _ in parts]
    defined = functions(plain, classes=True)
    found = [f for f in defined if [*f.namespaces, f.name][-len(path) :] == path]
    if not found:
        offered = ", ".join(_spelling(f, plain) for f in templates(plain)) or "no such function"
        raise BadInput(f"there is no function '{name}'; it has {offered}")
    function = found[0]
    scope = [*function.namespaces, function.name]
    texts = [source, *headers.values()]
    given: dict[str, str] = {}
    spelt = scope[: -len(parts)]
    for at, (part, written) in enumerate(parts, len(spelt)):
        words = [_resolved(word, texts) for word in written]
        spelt.append(f"{part}<{', '.join(words)}>" if words else part)
        given |= _given(name, part, _parameters(scope[: at + 1], function, plain), words)
    text = _replaced(source, function, plain, given)
    again = next(
        f for f in functions(code(pieces(text)), classes=True) if f.end and f.line == function.line
    )
    alike = [f for one in texts for f in functions(code(pieces(one)), True) if f.name == again.name]
    types = ", ".join(parameter.type for parameter in again.parameters)
    signature = f"{again.returns.split()[-1]} ({types})" if len(alike) > 1 else ""
    return Instance(again, "::".join(spelt), text, signature)


def templates(plain: Sequence[Piece]) -> list[Function]:
    """Host functions with tensors among their parameters that only a spelt name chooses."""
    return [
        f
        for f in functions(plain, classes=True)
        if not (f.on_device or f.is_method)
        and any(TENSOR.search(p.type) for p in f.parameters)
        and (f.template or ("static" in f.returns.split() and _in_class(f, plain)))
    ]


def choice(plain: Sequence[Piece]) -> str:
    """The sentence for a file whose functions with tensors are all templates; "" if none is."""
    names = [_spelling(f, plain) for f in templates(plain)]
    if not names:
        return ""
    return (
        f"its functions that take tensors are templates or members of a class: {', '.join(names)};"
        f" choose one with the arguments that your program uses: --op '{names[0]}'"
    )


def _spelling(function: Function, plain: Sequence[Piece]) -> str:
    """The name with parameters as arguments: "ns::Kernel<T, N>::run"."""
    scope = [*function.namespaces, function.name]
    words = []
    for at, part in enumerate(scope):
        names = [name for _, name, _ in _parameters(scope[: at + 1], function, plain)]
        words.append(f"{part}<{', '.join(names)}>" if names else part)
    return "::".join(words)


def _parts(name: str) -> list[tuple[str, list[str]]]:
    """Names and template arguments between the ::. Raises BadInput."""
    every = pieces(name)
    parts: list[tuple[str, list[str]]] = []
    at = 0
    while at < len(every):
        word, end = every[at].text, at + 1
        if not word.isidentifier():
            raise BadInput(f"'{name}' is not a function's name")
        if end < len(every) and every[end].text == "<":
            depth = 0
            while end < len(every):
                depth += (every[end].text == "<") - every[end].text.count(">")
                end += 1
                if depth <= 0:
                    break
        inner = every[at + 2 : end - 1]
        parts.append((word, [spaced([p.text for p in part]) for part in split(inner)]))
        if end < len(every) and every[end].text != "::":
            raise BadInput(f"'{name}' is not a function's name")
        at = end + 1
    return parts


def _in_class(function: Function, plain: Sequence[Piece]) -> bool:
    return any(name in function.namespaces for name, _ in _classes(plain))


def _classes(plain: Sequence[Piece]) -> Iterator[tuple[str, str]]:
    """Name and head of each class with a body."""
    head = 0
    for index, piece in enumerate(plain):
        if piece.text == "{":
            words = [p.text for p in plain[head:index]]
            if name := class_name(words):
                yield name, " ".join(words)
        if piece.text in ("{", "}", ";"):
            head = index + 1


def _parameters(
    scope: Sequence[str], function: Function, plain: Sequence[Piece]
) -> tuple[tuple[str, str, str], ...]:
    """Template parameters of the function, or of the class or namespace that a scope ends with."""
    if len(scope) > len(function.namespaces):
        return function.template
    heads = (head for name, head in _classes(plain) if name == scope[-1])
    return template_parameters(next(heads, ""))


def _given(
    name: str, part: str, parameters: Sequence[tuple[str, str, str]], words: Sequence[str]
) -> dict[str, str]:
    """Arguments by the names of parameters. Raises BadInput where they do not match."""
    pack = bool(parameters) and parameters[-1][0].endswith(".")
    needed = [p for p in parameters if not p[2] and not p[0].endswith(".")]
    if (len(words) > len(parameters) and not pack) or len(words) < len(needed):
        listed = ", ".join(f"{kind} {own}" for kind, own, _ in parameters) or "none"
        raise BadInput(f"'{name}': the template parameters of {part} are {listed}")
    if opened := [own for (_, own, _), word in zip(parameters, words, strict=False) if own == word]:
        raise BadInput(
            f"'{name}' leaves {', '.join(opened)} open: write what your program uses, such as"
            " float or 128"
        )
    defaults = {own: default for _, own, default in parameters if default}
    return defaults | dict(zip((own for _, own, _ in parameters), words, strict=False))


def _resolved(word: str, texts: Sequence[str]) -> str:
    """A template argument for any scope: what CUDA calls the type, or with its namespace."""
    if not re.fullmatch(r"\w+", word) or word.isdecimal() or dtype_named(word):
        return word
    for text in texts:
        if alias := re.search(rf"\busing\s+{word}\s*=\s*([\w:]+)\s*;", text):
            if dtype := dtype_named(alias[1]):
                return C_TYPES[dtype]
    declared = re.compile(rf"\b(using|struct|class|enum|typedef|constexpr)\b[^;{{}}()]*\b{word}\b")
    for text in texts:
        if declared.search(text) and (spaces := _spaces(word, text)):
            return "::".join([*spaces, word])
    return word


def _spaces(word: str, text: str) -> list[str]:
    """The namespaces in which a text declares a name."""
    spaces, head = list[str](), list[str]()
    for piece in code(pieces(text)):
        if piece.text == word and {"using", "struct", "class", "enum", "constexpr"} & {*head}:
            return [space for space in spaces if space]
        if piece.text == "{":
            named = opens_scope(head) and "namespace" in head
            spaces.append("".join(head[head.index("namespace") + 1 :]) if named else "")
        elif piece.text == "}" and spaces:
            spaces.pop()
        head = [] if piece.text in "{};" else [*head, piece.text]
    return []


def _replaced(
    source: str, function: Function, plain: Sequence[Piece], given: Mapping[str, str]
) -> str:
    """The text with arguments instead of the function's template parameters, lines kept."""
    head = source[function.start : function.end]
    cut = re.match(r"template\s*", head)
    start = function.start
    if cut and function.template:
        depth, at = 0, cut.end()
        while at < len(head):
            depth += (head[at] == "<") - (head[at] == ">")
            at += 1
            if depth == 0:
                break
        start += at
    blank = re.sub(r"[^\n]", " ", source[function.start : start])
    text, at = source[: function.start] + blank, start
    for piece in plain:
        if piece.start >= start and piece.end <= function.end and piece.text in given:
            text += source[at : piece.start] + given[piece.text]
            at = piece.end
    return text + source[at:]
