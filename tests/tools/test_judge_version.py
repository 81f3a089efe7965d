"""The hash that names a judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools import judge_version

PACKAGE = "virtual_gpu/astra_vgpu"


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A judge of two files, and a virtual GPU's folder with its package."""
    package = tmp_path / "virtual_gpu" / "astra_vgpu"
    for folder in (tmp_path / "check", package):
        folder.mkdir(parents=True)
    for name in ("judge.py", "check/compare.py", "virtual_gpu/adapter.py", f"{PACKAGE}/gpu.py"):
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(judge_version, "HERE", tmp_path)
    monkeypatch.setattr(judge_version, "VIRTUAL_GPU", package)
    return tmp_path


def fresh() -> str:
    judge_version.judge_sha256.cache_clear()
    try:
        return judge_version.judge_sha256()
    finally:
        judge_version.judge_sha256.cache_clear()


@pytest.mark.parametrize(
    "name", ["judge.py", "check/compare.py", "virtual_gpu/adapter.py", f"{PACKAGE}/gpu.py"]
)
def test_another_text_of_one_file_is_another_judge(judge: Path, name: str) -> None:
    before = fresh()
    (judge / name).write_text("2")
    assert fresh() != before


def test_a_renamed_file_is_another_judge(judge: Path) -> None:
    before = fresh()
    (judge / "judge.py").rename(judge / "other.py")
    assert fresh() != before


@pytest.mark.parametrize("name", ["virtual_gpu/pyproject.toml", "judge.pyc", "check/kept.so"])
def test_what_a_wheel_lacks_or_a_run_leaves_does_not_count(judge: Path, name: str) -> None:
    before = fresh()
    (judge / name).write_text("2")
    assert fresh() == before
