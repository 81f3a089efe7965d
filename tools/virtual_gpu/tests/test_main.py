"""`python -m astra_vgpu`: what it says to bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_vgpu.__main__ import main

PROGRAM = str(Path(__file__).parent / "programs" / "vector_add.cu")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["run", "nowhere.cu"], 2, "no file nowhere.cu"),
        (["run", PROGRAM, "--gpu", "voodoo"], 2, "no constants for a GPU named 'voodoo'"),
        (["run", PROGRAM, "--flag=-std=c++11", "--flag=--nonsense"], 2, "nvcc cannot build"),
    ],
)
def test_bad_input_is_one_clear_line(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == code
    found = capsys.readouterr()
    assert said in found.err and "Traceback" not in found.err


def test_a_program_s_arguments_follow_two_dashes(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--profile", PROGRAM, "--", "512"]) == 0
    found = capfd.readouterr()
    assert found.out == "added 512 elements\n"
    assert "1 launches, estimated" in found.err and "warp instructions" in found.err
