"""What a task folder lacks is named by file and line; shipped tasks lack nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from astra_chat.tools.new.unfinished import launcher_problem, marks
from astra_chat.tools.task.folder import BUILTIN, find_task, load_task, task_names


@pytest.mark.parametrize("name", task_names())
def test_a_shipped_task_lacks_nothing(name: str) -> None:
    assert marks(BUILTIN / name) == []
    assert launcher_problem(find_task(name)) is None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BUILTIN / "silu_and_mul", tmp_path / "silu"))


def test_marks_and_blank_formulas_are_places(folder: Path) -> None:
    (folder / "reference.py").write_text('x = 1\nreturn {\n    "out": ...,  # float64\n}\n')
    with (folder / "baseline.cu").open("a") as file:
        file.write("// COMPLETE: look here\n")
    last = (folder / "baseline.cu").read_text().count("\n")
    assert marks(folder) == [
        f"baseline.cu, line {last}: look here",
        "reference.py, line 3: contains ... instead of a formula",
    ]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("int64_t d,\n", "int d,\n", "d is int, not int64_t: .*int d, int dtype"),
        (
            "void* out, const void* input, int64_t",
            "const void* input, void* out, int64_t",
            r"the parameters are in a different order: .*\(const void\* input, void\* out",
        ),
        (
            "int64_t d,\n",
            "int64_t d, int64_t input_stride,\n",
            r': task.toml has no input_stride \(strides = \["free", ...\] of input\?\): ',
        ),
        ("int64_t tokens, int64_t d,\n", "int64_t d,\n", "baseline.cu has no tokens: "),
        ('extern "C" cudaError_t silu_and_mul', "cudaError_t silu_and_mul", "does not define"),
    ],
)
def test_another_launcher_is_a_problem(folder: Path, old: str, new: str, words: str) -> None:
    source = (folder / "baseline.cu").read_text()
    assert old in source
    (folder / "baseline.cu").write_text(source.replace(old, new))
    problem = launcher_problem(load_task(folder))
    assert problem is not None
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(problem)
