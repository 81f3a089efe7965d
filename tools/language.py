"""Languages that a candidate may be written in: CUDA, and Triton as a Python file.

A candidate is its source alone, so its language is read from that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, PlainSerializer

Language = Literal["cuda", "triton"]
CUDA_ONLY: tuple[Language, ...] = ("cuda",)
NAMES: dict[Language, str] = {"cuda": "CUDA", "triton": "Triton"}
SUFFIXES: dict[Language, str] = {"cuda": ".cu", "triton": ".py"}
COMMENTS: dict[Language, str] = {"cuda": "//", "triton": "#"}
_IMPORT = re.compile(r"^(import|from)\s+triton\b", re.MULTILINE)


def is_triton(source: str) -> bool:
    """Whether a candidate is written in Triton: a line begins with an import of it."""
    return bool(_IMPORT.search(source))


def language_of(source: str) -> Language:
    """Returns the language of a candidate."""
    return "triton" if is_triton(source) else "cuda"


def written_in(source: str) -> str:
    """Returns " in Triton", as is said of a candidate by its name; "" for CUDA, the usual one."""
    return " in Triton" if is_triton(source) else ""


def suffix_of(source: str) -> str:
    """Returns how a file with this source ends: ".cu" or ".py"."""
    return SUFFIXES[language_of(source)]


def named(languages: Sequence[Language]) -> str:
    """Returns languages as text: "CUDA or Triton"."""
    return " or ".join(NAMES[one] for one in languages)


def _read(value: object) -> object:
    """Returns "cuda,triton" as the languages that it names, each once, in the order of Language."""
    if not isinstance(value, str):
        return value
    known: tuple[str, ...] = get_args(Language)
    given = [word.strip() for word in value.split(",")]
    if unknown := [word for word in given if word not in known]:
        raise ValueError(f"'{unknown[0]}' is not a language: use cuda, triton or cuda,triton")
    return tuple(word for word in known if word in given)


Languages = Annotated[
    tuple[Language, ...],
    BeforeValidator(_read),
    PlainSerializer(lambda languages: ",".join(languages), return_type=str),
]
"""Languages of a run, in files as text: "cuda,triton"."""
