"""A folder for programs whose calls are captured."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.capture.programs import Program


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    return Program(tmp_path, monkeypatch)
