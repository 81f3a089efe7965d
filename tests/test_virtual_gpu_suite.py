"""When the second tier leaves out the virtual GPU's tests: only for a state that passed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import virtual_gpu_suite
from tests.sources import PACKAGE
from tests.virtual_gpu_suite import ROOT, TESTS, files, has_passed, state


def test_another_byte_is_another_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = tmp_path / virtual_gpu_suite.FOLDERS[0] / "gpu.py"
    one.parent.mkdir(parents=True)
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


def test_the_state_is_that_of_sources_and_tests() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in files()}
    assert {f"{PACKAGE}gpu.py", f"{PACKAGE}ground/errors.py", f"{TESTS}/test_gpu.py"} <= names
    assert not [name for name in names if "__pycache__" in name or name.endswith("passed.txt")]


def test_its_tests_import_nothing_else() -> None:
    """Else the state would not say what they depend on."""
    own = [path.stem for path in (ROOT / TESTS).iterdir()]
    ours = re.compile(rf"(?:from|import) (?:astra_chat|tests(?!\.(?:{'|'.join(own)})\b))")
    assert not [path for path in (ROOT / TESTS).rglob("*.py") if ours.search(path.read_text())]
