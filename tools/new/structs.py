"""Structs and classes that a project's files define: which have plain fields, and which are objects
rather than elements of a tensor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from astra_chat.tools.new.source import (
    Parameter,
    Piece,
    closing,
    code,
    pieces,
    spaced,
    split,
)

_NO_FIELDS = frozenset("static using typedef enum struct class friend template union".split())
_ALIAS = re.compile(r"\busing (\w+) = ([\w: ]+?) ;")
Fields = tuple[Parameter, ...]


@dataclass
class Structs:
    """What is known of them, by name."""

    fields: dict[str, Fields] = field(default_factory=dict)
    """The plain fields of each that has no base and no constructor; arrays are not among them."""
    objects: set[str] = field(default_factory=set)
    """Those with pointers or functions in them: no kernel's tensor is made of such."""


def structs_of(sources: Iterable[str]) -> Structs:
    """The structs of sources, of which the first counts most."""
    found = Structs()
    for source in sources:
        for name, has_base, body in _bodies(code(pieces(source))):
            texts = [p.text for p in body]
            if "*" in texts or "(" in texts:
                found.objects.add(name)
            made = any(one == name and after == "(" for one, after in pairwise(texts))
            if not (made or has_base) and (fields := tuple(_fields(body))):
                kinds = dict(_ALIAS.findall(" ".join(texts)))
                known = (replace(f, type=kinds.get(f.type, f.type)) for f in fields)
                found.fields.setdefault(name, tuple(known))
    return found


def _bodies(pieces: Sequence[Piece]) -> Iterator[tuple[str, bool, Sequence[Piece]]]:
    """Name, whether it has bases, and what stands between the braces."""
    for at, piece in enumerate(pieces[:-3]):
        if piece.text not in ("struct", "class") or pieces[at - 1].text == "enum":
            continue
        opened = next((i for i in range(at, min(at + 12, len(pieces))) if pieces[i].text == "{"), 0)
        words = [p.text for p in pieces[at + 1 : opened]] if opened else []
        if not words or {";", "<", "="} & {*words}:
            continue
        bare = words[: words.index(":")] if ":" in words else words
        name = next((word for word in reversed(bare) if word not in ("final", ")")), "")
        yield name, ":" in words, pieces[opened + 1 : closing(pieces, opened)]


def _fields(body: Sequence[Piece]) -> Iterator[Parameter]:
    start = index = 0
    while index < len(body):
        text = body[index].text
        if text == "{":
            index = closing(body, index)
            if any(p.text == "(" for p in body[start:index]):
                start = index + 1  # a function with its body
        elif text == ":" and index - start == 1:
            start = index + 1  # public:
        elif text == ";":
            yield from _declared(body[start:index])
            start = index + 1
        index += 1


def _declared(words: Sequence[Piece]) -> Iterator[Parameter]:
    """The fields of one declaration: `int rows, d = 1`."""
    texts = [p.text for p in words]
    if not texts or texts[0] in _NO_FIELDS or {"(", "[", "operator"} & {*texts}:
        return
    kind: list[str] = []
    for part in ([p.text for p in some] for some in split(words)):
        end = next((i for i, text in enumerate(part) if text in ("=", "{")), len(part))
        default = "".join(part[end + 1 :]).rstrip("}")
        if end == 0 or (not kind and end < 2):
            return
        kind = kind or [text for text in part[: end - 1] if text != "*"]
        stars = ["*"] * part[:end].count("*")
        yield Parameter(spaced([*kind, *stars]), part[end - 1], default, words[0].token.line)
