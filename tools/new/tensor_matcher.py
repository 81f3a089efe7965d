"""Shapes and dtypes that SGLang's host code checks: TensorMatcher({N, 64}).with_dtype<T>()."""

from __future__ import annotations

import re
from collections.abc import Iterator

from astra_chat.tools.new.draft import dtype_named
from astra_chat.tools.types import DTypeName

_MATCHER = re.compile(r"\bTensorMatcher\s*\(\s*\{([^;]*?)\}\s*\)([^;]*);")
_VERIFIED = re.compile(r"\.\s*verify\s*\(\s*(\w+)")
_DTYPES = re.compile(r"\.\s*with_dtype\s*<([^>]*)>")
_NAMED = re.compile(r'\b(\w+)\s*=\s*(?:\w+::)*(?:SymbolicSize\s*)?\{\s*"(\w+)"\s*\}')
_NUMBER = re.compile(r"(?:\w+\s*\{\s*)?(\d+)\s*\}?")


def matched(body: str) -> Iterator[tuple[str, tuple[str, ...], tuple[DTypeName, ...]]]:
    """Each tensor that a host function's body matches, its extents and its dtypes; an extent that
    the code leaves open is the tensor's name and the axis."""
    body = re.sub(r"//[^\n]*", "", body)
    names = {symbol: text.lower() for symbol, text in _NAMED.findall(body)}
    for found in _MATCHER.finditer(body):
        words = [word.strip() for word in re.split(r",(?![^{(]*[})])", found[1]) if word.strip()]
        listed = _DTYPES.search(found[2])
        dtypes = [dtype_named(word.strip()) for word in listed[1].split(",")] if listed else []
        for tensor in _VERIFIED.findall(found[2]):
            shape = (_extent(word, tensor, axis, names) for axis, word in enumerate(words))
            yield tensor, tuple(shape), tuple(d for d in dtypes if d and all(dtypes))


def _extent(word: str, tensor: str, axis: int, names: dict[str, str]) -> str:
    if number := _NUMBER.fullmatch(word):
        return number[1]
    if re.fullmatch(r"[\d\s+*()-]+", word) and word != "-1":
        return re.sub(r"\s", "", word)
    own = names.get(word) or re.sub(r"(_sym)?_*$", "", word).lower()
    return own if re.fullmatch(r"[a-z]\w*", own) else f"{tensor}_{axis}"
