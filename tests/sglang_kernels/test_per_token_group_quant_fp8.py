"""The task per_token_group_quant_fp8: where its scales lie."""

from __future__ import annotations

from astra_chat.tools.task.folder import find_task

TASK = find_task("per_token_group_quant_fp8")


def test_scales_lie_by_rows_or_by_columns() -> None:
    scales = TASK.args[2]
    case = next(one for one in TASK.check if one.dims == {"tokens": 5, "hidden": 1408})
    rows = case.model_copy(update={"scalars": {"column_major": 0.0}})
    assert scales.strides_of(case) == (1, 8) and scales.strides_of(rows) == (11, 1)
