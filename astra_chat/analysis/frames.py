"""Rows as pandas DataFrames. pandas comes with the extra `analysis`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from astra_chat.analysis.rows import CaseRow, EvaluationRow
from astra_chat.tools.types import Value
from astra_vgpu.ground.errors import MissingDependency

try:
    import pandas as pd
except ImportError:
    raise MissingDependency("DataFrames need pandas: pip install 'astra-chat[analysis]'") from None

NESTED = ("cases", "metrics", "steps")
"""Columns of evaluations that hold rows of their own."""


def frame_of(kind: type[Value], rows: Sequence[Value]) -> pd.DataFrame:
    """A column for each field, also where there are no rows; entries by name become a dict."""
    columns = list(kind.model_fields)
    return pd.DataFrame([_flat(row) for row in rows], columns=columns)


def case_frame(rows: Sequence[EvaluationRow]) -> pd.DataFrame:
    """One row for each timed case: the evaluation's columns, then the case's under `case_...`
    where both have one of that name."""
    shared = [name for name in EvaluationRow.model_fields if name not in (*NESTED, "source")]
    renamed = {name: f"case_{name}" if name in shared else name for name in CaseRow.model_fields}
    found = [
        {
            **{name: getattr(row, name) for name in shared},
            **{renamed[name]: value for name, value in _flat(case).items()},
        }
        for row in rows
        for case in row.cases
    ]
    return pd.DataFrame(found, columns=[*shared, *renamed.values()])


def _flat(row: Value) -> dict[str, Any]:
    values = dict(row)
    for name in ("metrics", "steps"):
        if name in values:
            values[name] = {one.name: one.value for one in values[name]}
    if "cases" in values:
        values["cases"] = [_flat(case) for case in values["cases"]]
    return values
