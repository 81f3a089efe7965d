"""Set-up: what it finds, what it would fetch, and what it says where it cannot continue."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from astra_chat.tools.system import setup_env
from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.toolkit import PYPI_INSPECTORS, PYPI_TOOLKIT
from tests.sources import IMPORT_PATH

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.second_tier
def test_an_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    setup_env.make_environment()
    made = tmp_path / ".venv" / "bin" / "python"
    assert made.exists()
    (tmp_path / ".venv" / "kept").write_text("")
    setup_env.make_environment()
    assert (tmp_path / ".venv" / "kept").exists()


@pytest.mark.second_tier
def test_a_broken_environment_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    broken = tmp_path / ".venv" / "bin" / "python"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    setup_env.make_environment()
    assert subprocess.run([str(broken), "-c", "pass"], check=False).returncode == 0


def test_nvcc_comes_from_pypi_only_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup_env, "PYTHON", Path(sys.executable))
    monkeypatch.setenv("PYTHONPATH", IMPORT_PATH)
    monkeypatch.chdir(ROOT)
    assert setup_env.cuda_packages() == [*PYPI_INSPECTORS]
    bare = tmp_path / "bin"
    bare.mkdir()
    (bare / "g++").symlink_to(Path(shutil.which("g++") or pytest.fail("no g++")))
    empty = tmp_path / "python"
    empty.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    empty.chmod(0o755)
    monkeypatch.setattr(setup_env, "PYTHON", empty)
    monkeypatch.setenv("PATH", str(bare))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    assert setup_env.cuda_packages() == [PYPI_TOOLKIT, *PYPI_INSPECTORS]


def test_without_a_compiler_it_says_so_and_changes_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "astra_chat.tools.system.setup_env"],
        cwd=tmp_path,
        env={"PATH": str(tmp_path), "PYTHONPATH": IMPORT_PATH},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.strip() == "set-up: no g++ on PATH: apt-get install g++"
    assert list(tmp_path.iterdir()) == []


def test_make_refuses_an_old_python_in_words(tmp_path: Path) -> None:
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in (
        "pyproject.toml",
        "tools/virtual_gpu/pyproject.toml",
        "tools/system/setup_env.py",
        "tools/virtual_gpu/astra_vgpu/ground/toolkit.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    done = subprocess.run(
        ["make", f"PYTHON={old}", "demo"],
        cwd=tmp_path,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Astra needs Python 3.11 or newer" in done.stderr
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize(
    ("works", "asked"),
    [
        (setup_env.CPU_TORCH, [setup_env.CPU_TORCH]),
        (setup_env.CPU_TORCH_INDEX, [setup_env.CPU_TORCH] * 2),
        (setup_env.TORCH, [setup_env.CPU_TORCH] * 2 + [setup_env.TORCH]),
    ],
)
def test_torch_comes_from_the_first_source_that_has_it(
    works: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip is the network: what it is asked for is what this test looks at."""
    seen: list[str] = []

    def pip(arguments: list[str]) -> int:
        seen.append(arguments[0])
        return int(arguments[-1] != works)

    monkeypatch.setattr(setup_env, "_pip", pip)
    monkeypatch.setattr(setup_env, "_output", lambda _: "")
    setup_env.install_cpu_torch()
    assert seen == asked


def test_no_torch_at_all_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup_env, "_pip", lambda _: 1)
    monkeypatch.setattr(setup_env, "_output", lambda _: "")
    with pytest.raises(MissingDependency, match="pip cannot install torch=="):
        setup_env.install_cpu_torch()
