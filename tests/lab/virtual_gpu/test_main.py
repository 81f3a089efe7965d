"""`python -m lab.virtual_gpu`: what it says to bad input."""

from __future__ import annotations

import pytest

from lab.virtual_gpu.__main__ import main


def test_bad_input_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--set", "/nowhere"]) == 2
    assert capsys.readouterr().err.startswith("/nowhere contains no set of kernels")
