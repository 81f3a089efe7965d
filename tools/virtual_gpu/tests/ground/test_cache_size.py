"""The cache keeps to its limit: least recently used entries go first, and none that is in use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from astra_vgpu.ground import cache_size
from astra_vgpu.ground.cache import cache_folder, in_cache, new_entry
from astra_vgpu.ground.cache_size import entries, limit_bytes, parse_size, shrink
from astra_vgpu.ground.errors import BadInput

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASTRA_CACHE", str(tmp_path))
    return tmp_path


def left_by_another(name: str, used_s: float, size: int = 1000) -> Path:
    """An entry of a process that has ended."""
    folder = cache_folder("builds") / name
    folder.mkdir()
    (folder / "kernel.so").write_bytes(bytes(size))
    os.utime(folder, (used_s, used_s))
    return folder


@contextmanager
def process_that_uses(entry: Path) -> Iterator[None]:
    code = (
        "import sys; from pathlib import Path; from astra_vgpu.ground.cache import in_cache;"
        "assert in_cache(Path(sys.argv[1])); print('uses it', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(entry)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == "uses it\n"
        yield
        child.kill()


def test_what_was_not_used_for_longest_goes_first() -> None:
    old, older, new = (left_by_another(f"{age}", 1000.0 - age) for age in (50, 90, 10))
    assert [one.path for one in entries()] == [older, old, new]
    removed = shrink(2000)
    assert (removed.entries, removed.size_bytes) == (1, 1000)
    assert not older.exists() and old.exists() and new.exists()


def test_a_use_makes_an_entry_young() -> None:
    used, unused = left_by_another("used", 1.0), left_by_another("unused", 2.0)
    with process_that_uses(used):
        pass
    shrink(1000)
    assert used.exists() and not unused.exists()


def test_what_a_live_process_uses_stays_and_goes_once_it_was_killed() -> None:
    entry, other = left_by_another("entry", 1.0), left_by_another("other", 2.0)
    with process_that_uses(entry):
        assert [one.in_use for one in entries() if one.path == entry] == [True]
        shrink(0)
        assert entry.exists() and not other.exists()
    assert shrink(0).entries == 1 and not entry.exists()
    assert [*(cache_size.cache_root() / cache_size.IN_USE).iterdir()] == []


def test_an_entry_of_our_own_stays(own_cache: Path) -> None:
    entry = cache_folder("builds") / "mine"
    with new_entry(entry) as scratch:
        (scratch / "kernel.so").write_bytes(bytes(10))
    shrink(0)
    assert in_cache(entry)


def test_a_new_entry_makes_room_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTRA_CACHE_LIMIT", "10K")
    old = [left_by_another(f"{number}", float(number), 4000) for number in range(3)]
    with new_entry(cache_folder("builds") / "new") as scratch:
        (scratch / "kernel.so").write_bytes(bytes(1000))
    assert [path.exists() for path in old] == [False, True, True]


def test_scratch_folders_of_killed_processes_go() -> None:
    stale, fresh = cache_folder("builds") / ".making-1", cache_folder("builds") / ".graph-2"
    for folder in (stale, fresh):
        folder.mkdir()
    os.utime(stale, (1.0, 1.0))
    shrink(0)
    assert not stale.exists() and fresh.exists()


def test_folders_outside_the_cache_are_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "of" / "mine"
    elsewhere.parent.mkdir(parents=True)
    with new_entry(elsewhere):
        pass
    assert in_cache(elsewhere) and [*tmp_path.iterdir()] == [tmp_path / "elsewhere"]


@pytest.mark.parametrize(
    ("text", "size"), [("1000", 1000), ("500M", 500 * 2**20), ("4GiB", 2**32), ("1.5 kb", 1536)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text, "--to") == size


def test_a_limit_that_is_no_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTRA_CACHE_LIMIT", "much")
    with pytest.raises(BadInput, match="ASTRA_CACHE_LIMIT=much: give a size such as 500M"):
        limit_bytes()
