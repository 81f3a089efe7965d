"""Cases that every run has are made once; what was changed in the cache is made again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from astra_chat.tools.run.oracle import KIND, KeptResults, Oracle
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task, load_task
from astra_chat.tools.types import Case
from astra_vgpu.ground.cache import cache_folder

TASK = find_task("silu_and_mul")
STATED = min(TASK.check, key=TASK.least_bytes)
DRAWN = STATED.model_copy(update={"seed": 12345})


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTRA_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def oracles() -> Iterator[tuple[Oracle, Oracle]]:
    one, other = Oracle(TASK), Oracle(TASK)
    yield one, other
    one.close()
    other.close()


def made(oracle: Oracle, case: Case) -> dict[str, bytes]:
    (found,) = oracle.oracle_cases([case], Stop())
    return {p.name: p.read_bytes() for f in (found.folder, found.inputs) for p in f.iterdir()}


def started(oracle: Oracle) -> bool:
    return any(process._worker is not None for process in oracle._processes)


def test_only_what_every_run_has_is_kept_and_taken_without_a_process(
    oracles: tuple[Oracle, Oracle],
) -> None:
    wanted = made(oracles[0], STATED)
    made(oracles[0], DRAWN)
    assert len(list(cache_folder(KIND).iterdir())) == 1
    assert made(oracles[1], STATED) == wanted and {"input.in", "out.expected"} <= set(wanted)
    assert not started(oracles[1])


@pytest.mark.parametrize("change", ["another number", "a name that leads out", "no notes"])
def test_what_was_changed_is_made_again(oracles: tuple[Oracle, Oracle], change: str) -> None:
    wanted = made(oracles[0], STATED)
    (entry,) = cache_folder(KIND).iterdir()
    notes, path = entry / "files.json", entry / "expected" / "out.expected"
    if change == "another number":
        path.write_bytes(bytes(b ^ 1 for b in path.read_bytes()))
    elif change == "no notes":
        notes.unlink()
    else:
        notes.write_text(notes.read_text().replace("input.in", "../expected/input.in"))
    assert made(oracles[1], STATED) == wanted and started(oracles[1])


def test_what_a_link_names_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the user")
    for name, target in (("file", "secret"), ("folder", ".")):
        made = tmp_path / name
        made.mkdir()
        (made / "out.expected").symlink_to(tmp_path / target)
        KeptResults(TASK).keep(STATED, {"expected": made})
    (tmp_path / "linked").symlink_to(tmp_path)
    KeptResults(TASK).keep(STATED, {"expected": tmp_path / "linked"})
    assert not list(cache_folder(KIND).iterdir())


def test_another_reference_has_other_entries(tmp_path: Path) -> None:
    other = Path(shutil.copytree(TASK.folder, tmp_path / "silu_and_mul"))
    same = KeptResults(load_task(other))._entry(STATED)
    assert same == KeptResults(TASK)._entry(STATED)
    (other / "reference.py").write_text(TASK.files()["reference.py"] + "# another\n")
    assert KeptResults(load_task(other))._entry(STATED) != same
