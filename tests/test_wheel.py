"""What is in the wheel: everything that a user needs, nothing that only developers run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAX_BYTES = 6_000_000
"""Most bytes of all files, 5.4 MB now, recorded runs among them; lab/ would add 1.7."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    """Built from a copy: setuptools leaves files beside the sources."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in ("agents", "astra_chat", "lab", "sglang_kernels", "tools"):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignored)
    code = f"from setuptools.build_meta import build_wheel; build_wheel({str(out)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return ZipFile(next(out.glob("*.whl")))


def test_the_lab_is_not_in_it(wheel: ZipFile) -> None:
    names = wheel.namelist()
    assert not [name for name in names if "lab" in name.split("/")]
    assert not [name for name in names if not name.startswith("astra_chat")]
    assert sum(one.file_size for one in wheel.infolist()) < MAX_BYTES


def test_every_file_that_a_module_reads_is_in_it(wheel: ZipFile) -> None:
    names = set(wheel.namelist())
    sources = {
        path.relative_to(ROOT).as_posix()
        for folder in ("agents", "tools", "sglang_kernels", "astra_chat")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix not in (".pyc", "") and ".egg-info" not in str(path)
    }
    packed = {name.removeprefix("astra_chat/") for name in names} | names
    assert sources - packed == set()
    assert "astra_chat/py.typed" in names


def test_nothing_in_it_imports_what_is_left_out(wheel: ZipFile) -> None:
    left_out = re.compile(r"^\s*(?:from|import) (?:lab|tests)\b|\"-m\", \"lab\b", re.MULTILINE)
    for name in wheel.namelist():
        if name.endswith(".py"):
            assert not left_out.search(wheel.read(name).decode()), name


def test_it_says_what_it_runs_on(wheel: ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = wheel.read(name).decode()
    for minor in (11, 12, 13):
        assert f"Classifier: Programming Language :: Python :: 3.{minor}\n" in metadata
    assert "Classifier: Typing :: Typed\n" in metadata
