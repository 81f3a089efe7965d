"""Columns of the tables: each is documented or says by its name what it holds."""

from __future__ import annotations

import pytest

from astra_chat.analysis.rows import EvaluationRow, RoundRow, RunColumns, TurnRow


@pytest.mark.parametrize("kind", [EvaluationRow, RoundRow, TurnRow])
def test_every_row_says_which_run_it_is_of(kind: type[RunColumns]) -> None:
    assert list(kind.model_fields)[: len(RunColumns.model_fields)] == list(RunColumns.model_fields)
    assert len(kind.model_fields) > len(RunColumns.model_fields)
