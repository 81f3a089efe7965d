"""The virtual GPU by itself: NumPy is all it imports, and its own distribution runs programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "tests/programs/vector_add.cu"
ONLY_NUMPY = """
import sys

class OnlyNumpy:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in {"astra_vgpu", "numpy", *sys.stdlib_module_names} and top[0] != "_":
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, OnlyNumpy())
from astra_vgpu.__main__ import main
code = main(sys.argv[1:])
outside = {"torch", "pydantic", "openai", "autogen_core", "typer", "rich"} & sys.modules.keys()
raise SystemExit(code or 100 * len(outside))
"""


def python(*words: str, path: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(path)},
    )


def test_numpy_is_all_that_it_imports(tmp_path: Path) -> None:
    done = python("-c", ONLY_NUMPY, "doctor", path=ROOT, folder=tmp_path)
    assert done.returncode == 0 and f"NumPy {np.__version__}" in done.stdout, done.stderr
    done = python("-c", ONLY_NUMPY, "run", str(PROGRAM), path=ROOT, folder=tmp_path)
    assert (done.returncode, "added" in done.stdout) == (0, True), done.stderr
    blocked = python("-c", ONLY_NUMPY.replace('"numpy", ', ""), path=ROOT, folder=tmp_path)
    assert "numpy is blocked" in blocked.stderr


@pytest.mark.second_tier
def test_the_five_minutes_of_its_page(tmp_path: Path) -> None:
    page = (ROOT / "README.md").read_text()
    (program,) = re.findall(r"```cuda\n(.*?)```", page, re.DOTALL)
    (fixed,) = re.findall(r"Fix it \(`(.*?)`\)", page)
    broken, good = tmp_path / "broken.cu", tmp_path / "good.cu"
    broken.write_text(program)
    good.write_text(program.replace("if (i < n)", fixed))
    run = ("-m", "astra_vgpu", "run")
    found = python(*run, str(broken), path=ROOT, folder=tmp_path)
    assert (found.returncode, found.stdout) == (1, "cudaErrorIllegalAddress\n")
    assert "read of 4 bytes" in found.stderr and "offset 256" in found.stderr
    assert "cudaMalloc number 1 of 256 bytes" in found.stderr
    clean = python(*run, str(good), path=ROOT, folder=tmp_path)
    assert (clean.returncode, clean.stdout) == (0, "cudaSuccess\n")


@pytest.mark.second_tier
def test_kernels_of_an_extension_run_from_pytest(tmp_path: Path) -> None:
    page = (ROOT / "README.md").read_text()
    ((cuda, test),) = re.findall(r"```c\+\+\n(.*?)```.*?```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "test_scale.py").write_text(test)
    (build,) = re.findall(r"astra-vgpu-nvcc (-shared .*)", page)
    for condition, code in (("i < n", 0), ("i <= n", 1)):
        (tmp_path / "scale.cu").write_text(cuda.replace("i < n", condition))
        compiler = ("-m", "astra_vgpu.programs.nvcc_command")
        built = python(*compiler, *build.split(), path=ROOT, folder=tmp_path)
        assert built.returncode == 0, built.stderr
        done = python("-m", "pytest", "-q", "test_scale.py", path=ROOT, folder=tmp_path)
        assert done.returncode == code, done.stdout + done.stderr
        assert ("of 4 bytes at" in done.stderr) == bool(code)
    assert "cudaHostRegister of 4000 bytes, offset 4000" in done.stderr
    assert "see the report" in done.stdout


@pytest.mark.second_tier
def test_its_own_distribution_runs_a_program(tmp_path: Path) -> None:
    """Unpacked instead of installed, so that nothing else of this environment is changed."""
    project, target = tmp_path / "project", tmp_path / "installed"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        project.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, project)
    shutil.copytree(ROOT / "astra_vgpu", project / "astra_vgpu")
    words = ("-m", "build", "--wheel", "--no-isolation", str(project))
    built = python(*words, path=tmp_path, folder=tmp_path)
    assert built.returncode == 0, built.stderr
    (wheel,) = (project / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    assert {path.name.partition("-")[0] for path in target.iterdir()} == {"astra_vgpu"}
    assert wheel.stat().st_size < 1_000_000
    where = "import astra_vgpu; print(astra_vgpu.__file__)"
    assert python("-c", where, path=target, folder=target).stdout.startswith(str(target))
    words = ("-m", "astra_vgpu", "run", str(PROGRAM), "--", "512")
    done = python(*words, path=target, folder=target)
    assert (done.returncode, done.stdout) == (0, "added 512 elements\n"), done.stderr
