"""What is in the two wheels: everything that a user needs, nothing that only developers run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = ("pyproject.toml", "README.md", "LICENSE")
VIRTUAL_GPU = "tools/virtual_gpu"
MAX_BYTES = 6_000_000
"""Most bytes of all files, 5.4 MB now, recorded runs among them; lab/ would add 1.7."""


def built(files: Sequence[Path], folders: Sequence[Path], scratch: Path) -> ZipFile:
    """The wheel of a project, from a copy: setuptools leaves files beside the sources."""
    copy, out = scratch / "source", scratch / "wheel"
    copy.mkdir()
    for file in files:
        shutil.copy(file, copy)
    for folder in folders:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(folder, copy / folder.name, symlinks=True, ignore=ignored)
    code = f"from setuptools.build_meta import build_wheel; build_wheel({str(out)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return ZipFile(next(out.glob("*.whl")))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    files = [ROOT / name for name in PROJECT]
    folders = [ROOT / name for name in ("agents", "astra_chat", "lab", "sglang_kernels", "tools")]
    return built(files, folders, tmp_path_factory.mktemp("astra-chat"))


@pytest.fixture(scope="module")
def virtual_gpu(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    files = [ROOT / VIRTUAL_GPU / name for name in PROJECT]
    folders = [ROOT / VIRTUAL_GPU / "astra_vgpu"]
    return built(files, folders, tmp_path_factory.mktemp("astra-vgpu"))


def test_the_lab_is_not_in_it(wheel: ZipFile) -> None:
    names = wheel.namelist()
    assert not [name for name in names if "lab" in name.split("/")]
    assert not [name for name in names if not name.startswith("astra_chat")]
    assert sum(one.file_size for one in wheel.infolist()) < MAX_BYTES


def test_of_the_virtual_gpu_it_has_what_leads_to_it(wheel: ZipFile) -> None:
    folder = f"astra_chat/{VIRTUAL_GPU}/"
    names = {name.removeprefix(folder) for name in wheel.namelist() if name.startswith(folder)}
    assert names == {"__init__.py", "__main__.py", "adapter.py"}


def test_two_wheels_share_no_file(wheel: ZipFile, virtual_gpu: ZipFile) -> None:
    assert not {*wheel.namelist()} & {*virtual_gpu.namelist()}
    commands = [
        {line.split()[0] for line in one.read(name).decode().splitlines() if " = " in line}
        for one in (wheel, virtual_gpu)
        for name in one.namelist()
        if name.endswith("/entry_points.txt")
    ]
    assert commands == [{"astra-chat"}, {"astra-vgpu", "astra-vgpu-nvcc"}]


def test_every_file_of_the_virtual_gpu_is_in_its_wheel(virtual_gpu: ZipFile) -> None:
    package = ROOT / VIRTUAL_GPU / "astra_vgpu"
    files = [path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    wanted = {path.relative_to(package.parent).as_posix() for path in files}
    assert wanted == {n for n in virtual_gpu.namelist() if n.startswith("astra_vgpu/")}


@pytest.mark.parametrize(
    "words",
    [
        ("-m", "astra_chat", "run", "silu_and_mul"),
        ("-m", "astra_chat.tools.virtual_gpu", "doctor"),
        ("-c", "from astra_chat import run"),
        ("-c", "import astra_chat.session.api"),
    ],
)
def test_without_the_virtual_gpu_one_line_says_how_to_get_it(
    wheel: ZipFile, words: tuple[str, ...], tmp_path: Path
) -> None:
    """-S: this environment may have both."""
    wheel.extractall(tmp_path)
    environment = {"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-S", *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (3, "")
    (line,) = done.stderr.splitlines()
    assert "pip install ./tools/virtual_gpu" in line


def test_astra_can_be_imported_without_it(wheel: ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    command = [sys.executable, "-S", "-c", "import astra_chat; print(astra_chat.__file__)"]
    environment = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.startswith(str(tmp_path)), done.stderr


def test_every_file_that_a_module_reads_is_in_it(wheel: ZipFile) -> None:
    names = set(wheel.namelist())
    sources = {
        path.relative_to(ROOT).as_posix()
        for folder in ("agents", "tools", "sglang_kernels", "astra_chat")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix not in (".pyc", "") and ".egg-info" not in str(path)
        if VIRTUAL_GPU not in str(path)
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
