"""The dtypes of an exported function's tensors, and the type variables among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from astra_chat.tools.new.draft import (
    USUAL,
    Tensor,
    dtype_named,
    is_index_name,
    variables_of,
)
from astra_chat.tools.new.host_function import Facts
from astra_chat.tools.new.like_named import Alike
from astra_chat.tools.new.stated import Stated
from astra_chat.tools.types import DTypeName, is_float


def letters_of(variables: Mapping[str, tuple[DTypeName, ...]]) -> dict[str, str]:
    """A type variable for each dispatched type: T for the first, but not for codes where there are
    others; Q for codes, I for indices."""
    letters: dict[str, str] = {}
    for name, dtypes in sorted(variables.items(), key=lambda one: _are_codes(one[1])):
        wanted = "T" if not letters else "I" if "int64" in dtypes else "U"
        if letters and _are_codes(dtypes):
            wanted = "Q"
        free = [letter for letter in (wanted, *"UVWXYZ") if letter not in letters.values()]
        letters[name] = free[0]
    return letters


def _are_codes(dtypes: Sequence[DTypeName]) -> bool:
    return "float8_e4m3fn" in dtypes or "int8" in dtypes


def of_codes(
    tensors: Sequence[Tensor], codes: Sequence[str]
) -> tuple[list[Tensor], dict[str, tuple[DTypeName, ...]], bool]:
    """The variables of a launcher that takes a dtype code for each: `dtype` for T, `i_dtype` for I.
    Void pointers are tensors of T; of another one where it is the only one, or indices."""
    others = [code for code in codes if code != "T"]
    found = [
        replace(t, dtype=others[0])
        if t.dtype == "T" and others and ("T" not in codes or is_index_name(t.name))
        else t
        for t in tensors
    ]
    guessed: dict[str, tuple[DTypeName, ...]] = {"I": ("int32", "int64"), "Q": ("float8_e4m3fn",)}
    return found, {code: guessed.get(code, USUAL) for code in codes}, False


def dtype_of(tensor: Tensor, facts: Facts, said: Stated, alike: Alike) -> str:
    """A dtype, a type variable, or "T" where nothing is known."""
    name = tensor.name
    if name in facts.switched:
        return facts.letters[facts.switched[name]]
    known = facts.elements.get(name, [])
    for told in (list(said.dtypes.get(name, ())), known):
        if len(told) == 1:
            return told[0]
    for word in (*facts.words.get(name, ()), *alike.elements):
        if letter := facts.letters.get(word):
            return letter
        if (dtype := dtype_named(word)) and not known:
            return dtype
    return "T"


def variables_among(
    tensors: Sequence[Tensor], facts: Facts, said: Stated
) -> tuple[list[Tensor], dict[str, tuple[DTypeName, ...]], bool]:
    """The type variables that tensors have, and whether the source tells their dtypes."""
    used = {t.dtype for t in tensors}
    variables = {
        letter: facts.variables[name] for name, letter in facts.letters.items() if letter in used
    }
    for name, letter in facts.letters.items():
        if letter != "T" and len(facts.variables[name]) == 1:
            (dtype,) = variables.pop(letter, facts.variables[name])
            tensors = [replace(t, dtype=dtype) if t.dtype == letter else t for t in tensors]
    if "T" not in used and not variables:
        fixed, found, known = variables_of(tensors)
        return list(fixed), found, known
    known = not facts.guessed
    if "T" in used and "T" not in variables:
        listed = [d for d in said.dtypes.values() if len(d) > 1 and all(map(is_float, d))]
        halves = [d for d in ("float16", "bfloat16") if d in used]
        dtypes = facts.branches or (listed[0] if listed else ())
        if not dtypes and len(halves) == 1:
            dtypes = (halves[0],)
        told = [d for d in halves if d in dtypes]
        tensors = [replace(t, dtype="T") if t.dtype in told else t for t in tensors]
        known = known and bool(dtypes)
        variables = {"T": dtypes or USUAL, **variables}
    if "T" in variables and variables["T"] == ("float32",):
        tensors = [replace(t, dtype="T") if t.dtype == "float32" else t for t in tensors]
    return list(tensors), variables, known
