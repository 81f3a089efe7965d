"""Children: limits hold, the whole group dies, the environment is an allow-list."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from astra_chat.tools.process import (
    TAIL_BYTES,
    Cancelled,
    StepTimeout,
    Stop,
    child_environment,
    run_limited,
    signal_name,
)

GIB = 2**30


def run(tmp_path: Path, script: str, timeout_s: float = 20.0, stop: Stop | None = None):  # type: ignore[no-untyped-def]
    return run_limited(
        ["/bin/sh", "-c", script], timeout_s=timeout_s, memory_bytes=GIB, cwd=tmp_path,
        stop=stop or Stop(),
    )  # fmt: skip


def test_status_and_output_come_back(tmp_path: Path) -> None:
    done = run(tmp_path, "echo out; echo err >&2; exit 3")
    assert (done.returncode, sorted(done.output.split())) == (3, ["err", "out"])


def test_a_flood_keeps_only_its_tail(tmp_path: Path) -> None:
    done = run(tmp_path, "yes flood | head -c 3000000; echo end")
    assert len(done.output) <= TAIL_BYTES and done.output.endswith("end\n")


def test_a_timeout_kills_the_whole_group(tmp_path: Path) -> None:
    with pytest.raises(StepTimeout):
        run(tmp_path, "(sleep 3; touch survived) & sleep 60", timeout_s=0.3)
    time.sleep(3.2)
    assert not (tmp_path / "survived").exists()


def test_memory_is_limited(tmp_path: Path) -> None:
    done = run(tmp_path, "python3 -c 'x = bytearray(3 * 2**30)'")
    assert done.returncode != 0 and "MemoryError" in done.output


def test_stop_from_another_thread(tmp_path: Path) -> None:
    stop = Stop()
    threading.Timer(0.2, stop.set).start()
    start = time.monotonic()
    with pytest.raises(Cancelled):
        run(tmp_path, "sleep 60", stop=stop)
    assert time.monotonic() - start < 5


def test_no_key_reaches_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert "OPENAI_API_KEY" not in child_environment()
    assert "secret" not in run(tmp_path, "env").output


def test_signal_names() -> None:
    assert signal_name(-11) == "killed by SIGSEGV"
    assert signal_name(3) == "exit status 3"
