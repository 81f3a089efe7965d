"""A Triton kernel's signature is read into a contract (its code: test_triton_baseline.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.new.create import new_task
from astra_chat.tools.new.triton_kernel import draft_of, kernels
from astra_chat.tools.new.unfinished import launcher_problem, marks
from astra_chat.tools.task.folder import load_task
from astra_vgpu.ground.errors import BadInput

SOURCE = """
import triton
import triton.language as tl


@triton.autotune(configs=[], key=["n_cols"])
@triton.jit
def rms_norm_kernel(X, y_ptr, weight_ptr, counter_ptr, stride_xm, y_row_stride, n_rows, n_cols, eps,
                    BLOCK: tl.constexpr, HAS_WEIGHT: "tl.constexpr" = True):
    row = tl.program_id(0)
    X += row * stride_xm
    columns = tl.arange(0, BLOCK)
    start = X + columns
    x = tl.load(start, mask=columns < n_cols)
    w = tl.load(weight_ptr + columns)
    tl.store(y_ptr + row * y_row_stride + columns, x * w)
    tl.atomic_add(counter_ptr, 1)


@triton.jit
def _helper(a, b):
    return a + b


def plain(x):
    return x
"""


def test_the_signature() -> None:
    kernel, helper = kernels(SOURCE, "norm.py")
    assert helper.name == "_helper"
    found = draft_of(kernel, "mine")
    assert [(t.name, t.access, t.strides) for t in found.tensors] == [
        ("x", "read", ("free", "1")),
        ("y", "write", ("free", "1")),
        ("weight", "read", ()),
        ("counter", "readwrite", ()),
    ]
    assert found.dims == ("n_rows", "n_cols") and [s.name for s in found.scalars] == ["eps"]
    assert all(t.doubts for t in found.tensors)
    assert "its constants: BLOCK, HAS_WEIGHT" in found.baseline


def test_the_task_loads_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "norm.py").write_text(SOURCE)
    folder, origin, _ = new_task("mine", [tmp_path / "norm.py"], "rms_norm_kernel")
    assert "with --grid" in origin and "\n" not in origin
    assert launcher_problem(load_task(folder)) is None
    assert any("what rms_norm_kernel does, in CUDA" in place for place in marks(folder))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def f(:\n", "norm.py, line 1: it is not valid Python"),
        ("def f(x): pass\n", "no function decorated with @triton.jit"),
        (SOURCE, "rms_norm_kernel, _helper: choose one with --op"),
        ("import triton\n@triton.jit\ndef f(n):\n    pass\n", "line 3: f takes no pointer"),
    ],
)
def test_bad_input(
    source: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "norm.py").write_text(source)
    with pytest.raises(BadInput, match=words):
        new_task("mine", [tmp_path / "norm.py"])
    assert not (tmp_path / "mine").exists()
