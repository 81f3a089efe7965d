"""Runner processes that are started before they are needed."""

from __future__ import annotations

from pathlib import Path

from astra_chat.tools.run.runner import ProcessPool
from astra_chat.tools.sandbox.policy import SandboxPolicy

MODULE = "astra_chat.tools.runners.translate"


def policy(*folders: Path) -> SandboxPolicy:
    return SandboxPolicy(read=folders[:-1], write=folders[-1:])


def test_processes_wait_for_what_is_not_built_yet(tmp_path: Path) -> None:
    """Dismissed, they leave nothing behind."""
    pool = ProcessPool()
    pool.prepare(MODULE, "check", 2, policy)
    pool.prepare(MODULE, "check", 1, policy)
    first, second = pool._waiting[MODULE, "check"]
    library = tmp_path / "kernel.so"
    library.write_bytes(b"built later")
    place = first.put(library)
    assert place.read_bytes() == b"built later" and place.is_relative_to(first.builds or "")
    assert first.builds != second.builds
    pool.dismiss()
    assert not any(f.exists() for one in (first, second) for f in (one.scratch, one.builds) if f)
    assert not pool._waiting[MODULE, "check"]


def test_a_prepared_process_is_taken_before_another_is_started(tmp_path: Path) -> None:
    pool = ProcessPool()
    pool.prepare(MODULE, "check", 2, policy)
    first, second = pool._waiting[MODULE, "check"]
    assert [pool.take(MODULE, "check", policy) for _ in range(2)] == [first, second]
    other = pool.take(MODULE, "time", policy)
    assert other.builds is None and other.put(tmp_path) == tmp_path
    for process in (first, second, other):
        process.close()
    assert not other.scratch.exists()
