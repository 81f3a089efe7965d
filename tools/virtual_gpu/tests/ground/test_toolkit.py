"""The toolkit is found from a wrapper, CUDA_HOME and PyPI's folders, or its lack is said."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from astra_vgpu.ground import toolkit
from astra_vgpu.ground.errors import MissingDependency

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    """Each test asks afresh, and leaves no answer of its odd PATH behind."""
    cached = (
        toolkit.find_toolkit,
        toolkit.find_compiler,
        toolkit.find_ninja,
        toolkit.find_tool,
        toolkit.host_tool_versions,
    )
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def compiler_only(folder: Path) -> Path:
    """A bin folder with g++ and what it needs, and no nvcc."""
    folder.mkdir()
    for name in ("g++", "gcc", "as", "ld", "sh", "env"):
        (folder / name).symlink_to(Path(shutil.which(name) or pytest.fail(f"no {name}")))
    return folder


def test_the_toolkit_is_complete() -> None:
    found = toolkit.find_toolkit()
    assert (found.include_dir / "cuda_runtime.h").is_file()
    assert (found.lib_dir / "libcudart_static.a").is_file()
    assert (found.root / "nvvm" / "bin" / "cicc").is_file()
    assert found.version.count(".") == 2


def test_a_wrapper_on_path_leads_to_the_true_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = toolkit.find_toolkit()
    executable(tmp_path / "nvcc", f'exec {true.nvcc} "$@"')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    toolkit.find_toolkit.cache_clear()
    assert toolkit.find_toolkit() == true


def test_cuda_home_serves_where_path_has_no_nvcc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = toolkit.find_toolkit()
    monkeypatch.setenv("PATH", str(compiler_only(tmp_path / "bin")))
    monkeypatch.setenv("CUDA_HOME", str(true.root))
    toolkit.find_toolkit.cache_clear()
    toolkit.find_compiler.cache_clear()
    assert toolkit.find_toolkit().nvcc == true.nvcc


def test_an_old_nvcc_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true = toolkit.find_toolkit()
    executable(tmp_path / "nvcc", "echo 'release 11.5, V11.5.119'")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("CUDA_HOME", str(true.root))
    toolkit.find_toolkit.cache_clear()
    assert toolkit.find_toolkit() == true


def test_no_nvcc_says_what_was_tried_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = compiler_only(tmp_path / "bin")
    executable(folder / "nvcc", "echo 'release 11.5, V11.5.119'")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(MissingDependency, match=r"11\.5\.119 is older.*pip install") as error:
        toolkit.find_toolkit()
    assert error.value.exit_code == 3


def test_no_compiler_is_said_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(MissingDependency, match=r"no g\+\+ on PATH.*apt-get install g\+\+"):
        toolkit.find_toolkit()


def test_cxx_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(MissingDependency, match="no-such-compiler"):
        toolkit.find_compiler()


def test_tools_are_found_in_pypi_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "nvidia" / "cu13"
    tool = executable(root / "bin" / "nvdisasm", "true")
    sanitizer = executable(root / "compute-sanitizer" / "compute-sanitizer", "true")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert toolkit.find_tool("nvdisasm") == tool
    assert toolkit.find_tool("compute-sanitizer") == sanitizer


def test_a_missing_tool_says_how_to_get_it() -> None:
    with pytest.raises(MissingDependency, match="no astra-tool on this machine"):
        toolkit.find_tool("astra-tool")


def test_versions_name_nvcc_and_the_compiler() -> None:
    versions = toolkit.host_tool_versions()
    assert versions["nvcc"] == toolkit.find_toolkit().version
    assert len(versions) == 2
    assert all(version[0].isdigit() for version in versions.values())


def test_it_runs_as_a_module_with_the_standard_library_only() -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-m", "astra_vgpu.ground.toolkit"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 3)
    assert ("nvcc" in done.stdout) == (done.returncode == 0)


@pytest.mark.parametrize("place", ["package", "scripts", "path"])
def test_ninja_is_found_wherever_it_lies(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = executable(tmp_path / "here" / "ninja", "echo 1.13.0")
    empty = tmp_path / "empty"
    empty.mkdir()
    folders = {"package": empty, "scripts": empty, "path": empty, place: program.parent}
    monkeypatch.setattr("ninja.BIN_DIR", str(folders["package"]))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(folders["scripts"]))
    monkeypatch.setattr(sys, "executable", str(empty / "python"))
    monkeypatch.setenv("PATH", f"{folders['path']}:/bin:/usr/bin")
    assert toolkit.find_ninja() == program


def test_a_ninja_package_without_its_program_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package can be installed and its script be missing, or not run."""
    broken = executable(tmp_path / "ninja", "exit 1")
    monkeypatch.setattr("ninja.BIN_DIR", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependency, match=f"{broken}: it does not run.*pip install ninja"):
        toolkit.find_ninja()
