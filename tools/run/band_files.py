"""The files beside an oracle case's expected results that say how near a midpoint results lie
(runners/bands.py writes them, check/bands.py judges by them)."""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.task.folder import Arg

Array = np.ndarray[Any, Any]
STATED, DERIVED = "terms", "derived"
ROUNDED = ("rounded_down", "rounded_up")


def terms_of(oracle_case: OracleCase, arg: Arg) -> tuple[Array, bool] | None:
    """The absolute sum of each element's terms, flat, float32, and whether reference.py states it;
    None where nothing says it."""
    for suffix in (STATED, DERIVED):
        path = oracle_case.folder / f"{arg.name}.{suffix}"
        if path.is_file() and path.stat().st_size:
            return np.memmap(path, dtype=np.float32, mode="r"), suffix == STATED
    return None


def is_stated(oracle_case: OracleCase, arg: Arg) -> bool:
    """Whether reference.py states the terms, so that each result is judged by its place alone."""
    return (oracle_case.folder / f"{arg.name}.{STATED}").is_file()


def rounded_of(oracle_case: OracleCase, arg: Arg) -> tuple[Array, ...]:
    """Results of a kernel that rounds an intermediate once, like the expected ones; two, as what it
    rounds may be a little less or more. None where the task does not allow that."""
    paths = [oracle_case.folder / f"{arg.name}.{suffix}" for suffix in ROUNDED]
    if not all(path.is_file() and path.stat().st_size for path in paths):
        return ()
    return tuple(np.memmap(path, dtype=np.float64, mode="r") for path in paths)
