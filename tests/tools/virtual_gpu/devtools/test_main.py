"""`python -m astra_chat.tools.virtual_gpu.devtools`: what it says to bad input."""

from __future__ import annotations

import pytest

from astra_chat.tools.virtual_gpu.devtools.__main__ import main


def test_bad_input_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--set", "/nowhere"]) == 2
    assert capsys.readouterr().err.startswith("/nowhere holds no set of kernels")
