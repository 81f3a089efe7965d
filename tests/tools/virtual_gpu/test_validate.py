from __future__ import annotations

import pytest

from astra_chat.tools.virtual_gpu.validate import validate


def test_the_table_has_every_point_and_the_scores(capsys: pytest.CaptureFixture[str]) -> None:
    validate("virtual", None, None, again=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 273 + 2
    assert lines[-2].startswith("cold: 273 points: median error")
    assert lines[-1].startswith("warm: 273 points: median error")
