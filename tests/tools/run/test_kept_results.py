"""Cases that every run has are made once; what was changed in the cache is made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.run.kept_results import KIND, KeptResults
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case
from astra_vgpu.ground.cache import cache_folder

TASK = find_task("silu_and_mul")
STATED = min(TASK.check, key=TASK.least_bytes)
DRAWN = STATED.model_copy(update={"seed": 12345})


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTRA_CACHE", str(tmp_path / "cache"))


def made(oracle: Oracle, case: Case) -> dict[str, bytes]:
    (found,) = oracle.oracle_cases([case], Stop())
    return files_of(found)


def files_of(found: OracleCase) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for f in (found.folder, found.inputs) for p in f.iterdir()}


def kept() -> list[Path]:
    return list(cache_folder(KIND).iterdir())


def test_only_what_every_run_has_is_kept_and_taken_without_a_process() -> None:
    first, second = Oracle(TASK), Oracle(TASK)
    try:
        wanted = made(first, STATED)
        made(first, DRAWN)
        assert len(kept()) == 1 and not KeptResults(TASK).are_of(DRAWN)
        assert made(second, STATED) == wanted and {"input.in", "out.expected"} <= set(wanted)
        assert all(process._worker is None for process in second._processes)
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize("change", ["another number", "a name that leads out", "no notes"])
def test_what_was_changed_is_made_again(change: str) -> None:
    first, second = Oracle(TASK), Oracle(TASK)
    try:
        wanted = made(first, STATED)
        (entry,) = kept()
        notes = entry / "files.json"
        if change == "another number":
            path = entry / "expected" / "out.expected"
            content = path.read_bytes()
            path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        elif change == "no notes":
            notes.unlink()
        else:
            notes.write_text(notes.read_text().replace("input.in", "../expected/input.in"))
        assert made(second, STATED) == wanted
        assert any(process._worker is not None for process in second._processes)
    finally:
        first.close()
        second.close()


def test_another_reference_has_other_entries(tmp_path: Path) -> None:
    other = tmp_path / "silu_and_mul"
    other.mkdir()
    for name, text in TASK.files().items():
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_text(text)
    same = KeptResults(find_task(str(other)))
    assert same._entry(STATED) == KeptResults(TASK)._entry(STATED)
    (other / "reference.py").write_text(TASK.files()["reference.py"] + "# another\n")
    assert KeptResults(find_task(str(other)))._entry(STATED) != same._entry(STATED)
