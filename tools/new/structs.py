"""Fields of the plain structs that a project's files define."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from astra_chat.tools.new.source import Parameter, Piece, closing, spaced

_NO_FIELDS = frozenset("static using typedef enum struct class friend template union".split())
Fields = tuple[Parameter, ...]


def structs_in(pieces: Sequence[Piece]) -> dict[str, Fields]:
    """The fields of each struct without bases and constructors, by its name; `pieces` is code without directives.
    What is no plain field, such as an array, is not among them."""
    found: dict[str, Fields] = {}
    for at, piece in enumerate(pieces[:-3]):
        if piece.text not in ("struct", "class") or pieces[at - 1].text == "enum":
            continue
        opened = next((i for i in range(at, min(at + 12, len(pieces))) if pieces[i].text == "{"), 0)
        words = [p.text for p in pieces[at + 1 : opened]] if opened else []
        if not words or {":", ";", "<", "="} & {*words}:
            continue
        name = words[-2] if words[-1] == "final" and words[1:] else words[-1]
        body = pieces[opened + 1 : closing(pieces, opened)]
        made = any(one.text == name and after.text == "(" for one, after in pairwise(body))
        if not made and (fields := tuple(_fields(body))):
            found.setdefault(name, fields)
    return found


def _fields(body: Sequence[Piece]) -> Iterator[Parameter]:
    start = index = 0
    while index < len(body):
        text = body[index].text
        if text == "{":
            index = closing(body, index)
            if body[start : index + 1] and any(p.text == "(" for p in body[start:index]):
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
    for part in _parts(texts):
        end = next((i for i, text in enumerate(part) if text in ("=", "{")), len(part))
        default = "".join(part[end + 1 :]).rstrip("}")
        if end == 0 or (not kind and end < 2):
            return
        kind = kind or [text for text in part[: end - 1] if text != "*"]
        stars = ["*"] * part[:end].count("*")
        line = words[0].token.line
        yield Parameter(spaced([*kind, *stars]), part[end - 1], default, line)


def _parts(texts: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    deep = 0
    for text in texts:
        deep += (text in "<({[") - (text in ">)}]")
        if text == "," and deep == 0:
            yield part
            part = []
        else:
            part.append(text)
    yield part
