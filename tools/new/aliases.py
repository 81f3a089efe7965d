"""Second names in a host function: `Tensor bias = *bias_;`, `auto sizes = x.sizes();`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from astra_chat.tools.new.source import Function, Piece

_SECOND_NAME = re.compile(
    r"\b(?:auto|Tensor) (?:& )?(\w+) = "
    r"((?:\* )?\w+(?: (?:\.|->) (?:value|sizes|scalar_type|dtype) \( \))?) ;"
)


def aliases(function: Function, pieces: Sequence[Piece]) -> dict[str, str]:
    """What stands for each of them, without blanks; of an optional, the optional itself."""
    body = " ".join(p.text for p in pieces[function.body : function.close + 1])
    return {
        name: value.replace(" ", "").removeprefix("*").removesuffix(".value()")
        for name, value in _SECOND_NAME.findall(body)
    }


def without_aliases(text: str, names: Mapping[str, str]) -> str:
    """The text in first names."""
    for name, value in names.items():
        text = re.sub(rf"(?<![\w.>]){name}\b", value, text)
    return text
