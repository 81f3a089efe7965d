"""The files of a new task load as a task, and agree with its launcher and its reference."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from astra_chat.tools.new.project import Project
from astra_chat.tools.new.task_files import files
from astra_chat.tools.new.unfinished import launcher_problem
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.task.launcher import prototype
from tests.tools.new.samples import KERNELS, draft


@pytest.mark.parametrize("file", sorted(p.name for p in KERNELS.glob("*.cu")))
def test_the_files_make_a_task(file: str, tmp_path: Path) -> None:
    found = draft(file)
    for name, text in files("mine", found, 'a "quoted" origin').items():
        (tmp_path / name).write_text(text)
    task = load_task(tmp_path)
    wanted = prototype(task)
    assert wanted == f'extern "C" cudaError_t mine({", ".join(found.parameters)})'
    assert launcher_problem(task) is None
    assert {case.dtype for case in task.check} == set(task.dtypes)
    tree = ast.parse((tmp_path / "reference.py").read_text())
    assert [n.name for n in tree.body if isinstance(n, ast.FunctionDef)] == [
        "make_inputs",
        "reference",
    ]


def test_what_the_source_told_is_not_asked_again() -> None:
    lines = files("mine", draft("rms_norm_torch.cu"), "x")["task.toml"].splitlines()
    asked = {line.split('"')[1] for line in lines if "shape?" in line}
    assert asked == {"out", "weight"}, "the shape of out is known once the file has run"
    assert '    { name = "eps", type = "float", value = 1e-6 },' in lines


@pytest.mark.parametrize(
    ("include", "standard"), [("<concepts>", "c++20"), ("<vector>", "c++17"), ('"span"', "c++17")]
)
def test_headers_of_cpp20_set_the_standard(include: str, standard: str) -> None:
    project = Project("", {"project/mine.h": f"#include {include}\n"})
    toml = files("mine", draft("rms_norm_torch.cu"), "x", project)["task.toml"]
    assert f'"-std={standard}"' in toml
