"""What a comparison of kernels leaves behind, and the file of several."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from astra_chat.tools.recordings.reading import read_recorded
from astra_chat.tools.types import Device, MeasuredTime, Value
from astra_vgpu.ground.errors import BadInput

SCHEMA = "astra-chat/baselines/1"


class Kernel(Value):
    """One side of a comparison."""

    name: str
    """sglang, paper: the task's tiers; best: the script's last; library, headers, jit, jit-pdl:
    another's; empty; streaming THREADSxVECTORS."""
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


RAW = {"comparisons": {"__all__": {"cases": {"__all__": {"raw"}}}}}
"""Block by block: 50 kB a comparison, from which nothing here is made."""


def write(path: Path, evidence: Evidence) -> None:
    dumped = evidence.model_dump(mode="json", exclude=RAW)
    path.write_text(json.dumps({"schema": SCHEMA, **dumped}, separators=(",", ":")) + "\n")


def read(path: Path) -> Evidence:
    """Raises BadInput."""
    try:
        found = json.loads(read_recorded(path))
        if found.pop("schema") != SCHEMA:
            raise BadInput(f"{path} has another schema than {SCHEMA}")
        return Evidence.model_validate(found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError) as error:
        raise BadInput(f"{path} contains no comparisons: {type(error).__name__}") from None


def of_task(evidence: Iterable[Evidence], task: str) -> list[Comparison]:
    return [c for one in evidence for c in one.comparisons if c.task == task and c.cases]
