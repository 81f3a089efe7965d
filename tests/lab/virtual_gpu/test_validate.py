from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from astra_vgpu.ground.errors import BadInput
from lab.virtual_gpu.validate import validate
from lab.virtual_gpu.validation.points import HERE

VARIED = HERE.parent / "calibration/varied"


def test_the_table_has_every_point_and_the_scores(capsys: pytest.CaptureFixture[str]) -> None:
    validate("virtual", VARIED, None, again=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 273 + 2
    assert lines[-2].startswith("cold: 273 points: median error")
    assert lines[-1].startswith("warm: 273 points: median error")


def test_a_set_that_nobody_measured_has_no_table(tmp_path: Path) -> None:
    shutil.copy(HERE / "set.toml", tmp_path)
    with pytest.raises(BadInput, match=r"no .*h200\.jsonl: run validate --device cuda"):
        validate("virtual", tmp_path, None, again=False)


def test_the_validation_says_what_the_docs_say(capsys: pytest.CaptureFixture[str]) -> None:
    validate("virtual", None, None, again=False)
    cold, warm = capsys.readouterr().out.splitlines()[-2:]
    assert "237 points: median error 8.0%" in cold and "273/279" in cold and "64/66" in cold
    assert "237 points: median error 8.8%" in warm and "278/284" in warm and "64/66" in warm
