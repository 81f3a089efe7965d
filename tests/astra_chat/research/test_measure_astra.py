"""The chat's own figures are printed. How large they are is the machine's affair."""

from __future__ import annotations

import re

import pytest

from astra_chat.research.measure_astra import turns


def test_turns(capsys: pytest.CaptureFixture[str]) -> None:
    turns()
    found = re.search(
        r"best ([\d.]+) ms, median ([\d.]+) ms \((\d+) turns\)", capsys.readouterr().out
    )
    assert found is not None
    assert 0 < float(found[1]) <= float(found[2]) and int(found[3]) > 20
