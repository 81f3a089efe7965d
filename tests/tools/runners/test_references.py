"""A function of PyTorch's as a task's reference: in float64, by the oracle process, walled."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import BUILTIN, Task, load_task
from astra_chat.tools.types import Case
from astra_vgpu.ground.errors import BadInput

SILU = """
import torch

def silu(x):
    half = x.shape[-1] // 2
    gate, up = x[..., :half].float(), x[..., half:].to(torch.float32)
    ones = torch.ones(1)
    return (torch.nn.functional.silu(gate) * up * ones).to(torch.bfloat16)

def into(out, input):
    out.copy_(silu(input))

def by_name(input):
    return {"out": silu(input)}

def of_two(first, second):
    return first

def nothing(input):
    return None

def failing(input):
    raise NotImplementedError("no kernel for the CPU")

def peeking(input):
    open("/etc/passwd").read()
"""


def task(tmp_path: Path, reference: str) -> Task:
    folder = tmp_path / "silu"
    shutil.copytree(BUILTIN / "silu_and_mul", folder, ignore=shutil.ignore_patterns("*.xz"))
    (folder / "reference.py").unlink()
    (folder / "acts.py").write_text(SILU)
    text = (folder / "task.toml").read_text()
    contract = text.replace("\nentry = ", f'\nreference = "{reference}"\nentry = ')
    (folder / "task.toml").write_text(contract)
    return load_task(folder)


CASE = Case(dims={"tokens": 5, "d": 33}, dtype="bfloat16", seed=7)


@pytest.mark.parametrize("function", ["silu", "into", "by_name"])
def test_it_computes_in_float64_whatever_it_casts_to(tmp_path: Path, function: str) -> None:
    found = task(tmp_path, f"acts:{function}")
    oracle = Oracle(found)
    try:
        oracle.require_sound(Stop())
        (made,) = oracle.oracle_cases([CASE], Stop())
        bits = np.fromfile(made.input_path(found.args[1]), np.uint16).astype(np.uint32) << 16
        x = bits.view(np.float32).astype(np.float64).reshape(5, 66)
        gate, up = x[:, :33], x[:, 33:]
        expected = (gate / (1 + np.exp(-gate)) * up).reshape(-1)
        np.testing.assert_allclose(made.expected(found.args[0]), expected, rtol=1e-13)
    finally:
        oracle.close()


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("of_two", "acts:of_two takes (first, second), but the contract has input"),
        ("nothing", "acts:nothing returns 0 tensors, but the contract's results are out"),
        ("failing", "NotImplementedError: no kernel for the CPU"),
        ("missing", "acts has no function missing"),
        ("peeking", "PermissionError"),
    ],
)
def test_what_it_does_wrong_is_one_line_with_its_place(
    tmp_path: Path, function: str, said: str
) -> None:
    found = task(tmp_path, f"acts:{function}")
    oracle = Oracle(found)
    try:
        with pytest.raises(BadInput) as error:
            oracle.oracle_cases([CASE], Stop())
    finally:
        oracle.close()
    assert said in str(error.value) and "\n" not in str(error.value)
    assert str(found.folder / "acts.py") in str(error.value)
    if function == "failing":
        assert "acts.py:23: NotImplementedError" in str(error.value)


def test_a_folder_without_both_is_no_task(tmp_path: Path) -> None:
    found = task(tmp_path, "acts:silu")
    path = found.folder / "task.toml"
    path.write_text(path.read_text().replace('reference = "acts:silu"\n', ""))
    with pytest.raises(BadInput, match=r"reference.py is missing"):
        load_task(found.folder)
