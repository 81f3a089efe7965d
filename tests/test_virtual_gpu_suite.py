"""When the second tier leaves out the virtual GPU's tests: only for a state that passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import virtual_gpu_suite
from tests.virtual_gpu_suite import ROOT, TESTS, files, has_passed, imports_nothing_else, state


def test_another_byte_is_another_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = tmp_path / "tools" / "virtual_gpu" / "gpu.py"
    one.parent.mkdir(parents=True)
    (tmp_path / "tools" / "system").mkdir()
    for name in virtual_gpu_suite.GROUND:
        (tmp_path / "tools" / f"{name.replace('.', '/')}.py").touch()
    monkeypatch.setattr(virtual_gpu_suite, "ROOT", tmp_path)
    one.write_text("a = 1\n")
    before = state()
    assert state() == before
    one.write_text("a = 2\n")
    assert state() != before


def test_only_a_recorded_state_has_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "passed.txt"
    monkeypatch.setattr(virtual_gpu_suite, "RECORD", record)
    assert not has_passed()
    record.write_text(f"{state()[:-1]}x\n")
    assert not has_passed()
    record.write_text(f"another\n{state()}\n")
    assert has_passed()


def test_the_state_is_that_of_sources_tests_and_ground() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in files()}
    assert {
        "tools/virtual_gpu/astra_vgpu/gpu.py",
        f"{TESTS}/test_gpu.py",
        "tools/virtual_gpu/astra_vgpu/ground/errors.py",
    } <= names
    assert not [name for name in names if "__pycache__" in name or name.endswith("passed.txt")]


def test_tests_of_the_judge_beside_them_always_run() -> None:
    assert imports_nothing_else(ROOT / TESTS / "test_gpu.py")
    importing = [
        path
        for path in sorted((ROOT / TESTS).rglob("test_*.py"))
        if "astra_chat.tools.run.runner" in path.read_text()
    ]
    assert importing and not any(map(imports_nothing_else, importing))
