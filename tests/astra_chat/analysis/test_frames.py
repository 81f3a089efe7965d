"""DataFrames: entries by name are dicts, and without pandas one line says what to install."""

from __future__ import annotations

import sys

import pytest

from astra_chat import load_transcript
from astra_vgpu.ground.errors import MissingDependency
from tests.recorded_files import VIRTUAL


def test_metrics_and_steps_are_dicts() -> None:
    row = load_transcript(VIRTUAL).frame("evaluations").iloc[0]
    assert row["metrics"]["gpu__time_duration.sum"] > 0
    assert row["steps"]["check"] > 0 and row["cases"][0]["label"]


def test_without_pandas_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.delitem(sys.modules, "astra_chat.analysis.frames", raising=False)
    with pytest.raises(MissingDependency, match=r"astra-chat\[analysis\]"):
        load_transcript(VIRTUAL).frame("rounds")
