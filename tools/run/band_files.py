"""The files beside an oracle case's expected results that say how near a midpoint results lie
(runners/bands.py writes them, check/bands.py judges by them)."""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_chat.tools.run.oracle import OracleCase, ResultDType
from astra_chat.tools.task.folder import Arg

Array = np.ndarray[Any, Any]
STATED, DERIVED = "terms", "derived"
ROUNDED = ("rounded_down", "rounded_up")


def terms_of(oracle_case: OracleCase, arg: Arg) -> tuple[Array, bool] | None:
    """The absolute sum of each element's terms, flat, float32, and whether reference.py states it;
    None where nothing says it."""
    for suffix in (STATED, DERIVED):
        found = _numbers(oracle_case, f"{arg.name}.{suffix}", "float32")
        if found is not None:
            return found, suffix == STATED
    return None


def is_stated(oracle_case: OracleCase, arg: Arg) -> bool:
    """Whether reference.py states the terms, so that each result is judged by its place alone."""
    return f"{arg.name}.{STATED}" in oracle_case.files


def rounded_of(oracle_case: OracleCase, arg: Arg) -> tuple[Array, ...]:
    """Results of a kernel that rounds an intermediate once, like the expected ones; two, as what it
    rounds may be a little less or more. None where the task does not allow that."""
    names = (f"{arg.name}.{suffix}" for suffix in ROUNDED)
    found = [_numbers(oracle_case, name, "float64") for name in names]
    there = tuple(one for one in found if one is not None)
    return there if len(there) == len(ROUNDED) else ()


def _numbers(oracle_case: OracleCase, name: str, dtype: ResultDType) -> Array | None:
    """What a file holds; None where there is none, or nothing in it."""
    if name not in oracle_case.files:
        return None
    found = oracle_case.numbers(name, dtype)
    return found if len(found) else None
