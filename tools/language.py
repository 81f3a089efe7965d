"""Languages that a candidate may be written in: CUDA, Triton as a Python file, and torch: a torch
extension in C++ and CUDA, of module tasks.

A candidate is its source alone, so its language is read from that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, PlainSerializer

from astra_vgpu.ground.errors import BadInput

Language = Literal["cuda", "triton", "torch"]
CUDA_ONLY: tuple[Language, ...] = ("cuda",)
NAMES: dict[Language, str] = {"cuda": "CUDA", "triton": "Triton", "torch": "a torch extension"}
SUFFIXES: dict[Language, str] = {"cuda": ".cu", "triton": ".py", "torch": ".cu"}
COMMENTS: dict[Language, str] = {"cuda": "//", "triton": "#", "torch": "//"}
_IMPORT = re.compile(r"^(import|from)\s+triton\b", re.MULTILINE)
FORWARD = "forward"
"""The function that a torch extension defines."""
_TENSOR = r"(?:torch|at)::Tensor"
_FORWARD = re.compile(
    rf"^[ \t]*(?:static[ \t]+|inline[ \t]+)?(?:{_TENSOR}|std::(?:tuple|vector|array)<[^;{{}}()]*>)"
    rf"\s+{FORWARD}\s*\(",
    re.MULTILINE,
)
REGISTERED = re.compile(r"\b(PYBIND11_MODULE|TORCH_LIBRARY\w*)\b")
"""Registering functions is the user's own binding's: a torch extension as a candidate has none."""


def is_triton(source: str) -> bool:
    """Whether a candidate is written in Triton: a line begins with an import of it."""
    return bool(_IMPORT.search(source))


def is_extension(source: str) -> bool:
    """Whether a candidate is a torch extension: it defines `torch::Tensor forward(...)`, and
    registers nothing itself, as the files of tasks with a [binding] do."""
    return bool(_FORWARD.search(source)) and not REGISTERED.search(source)


def language_of(source: str) -> Language:
    """Returns the language of a candidate."""
    if is_triton(source):
        return "triton"
    return "torch" if is_extension(source) else "cuda"


def require_launcher(source: str) -> None:
    """Raise BadInput for a torch extension, where only a kernel with a launcher can be used."""
    if is_extension(source):
        raise BadInput(
            "this candidate is a torch extension, which has no launcher: only its source can be"
            " used, as a file of torch.utils.cpp_extension"
        )


def written_in(source: str) -> str:
    """Returns " in Triton", as is said of a candidate by its name; "" for CUDA, the usual one."""
    how: dict[Language, str] = {"triton": " in Triton", "torch": " as a torch extension"}
    return how.get(language_of(source), "")


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
        raise ValueError(
            f"'{unknown[0]}' is not a language: use cuda, triton, torch or, for example, cuda,torch"
        )
    return tuple(word for word in known if word in given)


Languages = Annotated[
    tuple[Language, ...],
    BeforeValidator(_read),
    PlainSerializer(lambda languages: ",".join(languages), return_type=str),
]
"""Languages of a run, in files as text: "cuda,triton"."""
