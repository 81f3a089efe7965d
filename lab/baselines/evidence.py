"""What a comparison of kernels leaves behind, and the file of several."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from astra_chat.tools.types import Device, MeasuredTime, Value
from lab.commands import read_document

SCHEMA = "astra-chat/baselines/1"


class Kernel(Value):
    """One side of a comparison."""

    name: str
    """sglang, paper: the task's tiers; best: the script's last; winner: a live run's; library,
    headers, jit, triton, cute, also with -pdl: another's; empty; sweep; streaming
    THREADSxVECTORS."""
    tier: str
    what: str
    content: str
    """First 12 hex digits of the sha256 of its source, or of what the user brought."""


class Comparison(Value):
    """`first` is timed as the baseline of `second`: a ratio above 1 says that `second` is faster.

    What `second` wrote has been compared with the oracle."""

    task: str
    first: Kernel
    second: Kernel
    cases: tuple[MeasuredTime, ...]
    first_bytes: tuple[int, ...] = ()
    """Bytes that `first` moves on each case, where it is not the contract's least."""
    failure: str = ""
    """Why there are no cases."""


class Evidence(Value):
    device: Device
    comparisons: tuple[Comparison, ...]
    day: str = ""
    """When the last of them was measured, as YYYY-MM-DD; empty before 28 November 2026."""


RAW = {"comparisons": {"__all__": {"cases": {"__all__": {"raw"}}}}}
"""Block by block: 50 kB a comparison, from which nothing here is made."""


def write(path: Path, evidence: Evidence) -> None:
    dumped = evidence.model_dump(mode="json", exclude=RAW)
    path.write_text(json.dumps({"schema": SCHEMA, **dumped}, separators=(",", ":")) + "\n")


def read(path: Path) -> Evidence:
    """Raises BadInput."""
    return read_document(path, SCHEMA, Evidence, "comparisons")


def of_task(evidence: Iterable[Evidence], task: str) -> list[Comparison]:
    return [c for one in evidence for c in one.comparisons if c.task == task and c.cases]
