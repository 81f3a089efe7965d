"""One GPU, one measurement, among processes: who waits, who shares, and what a dead one leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from astra_chat.tools.system import gpu_lock as module
from astra_chat.tools.system.gpu_lock import lease
from astra_chat.tools.system.subprocesses import Cancelled, Stop
from astra_vgpu.ground.errors import MissingDependency

HOLD = """
import sys, time
from pathlib import Path
from astra_chat.tools.system import gpu_lock as module
from astra_chat.tools.system.subprocesses import Stop
module.FOLDER = Path(sys.argv[1])
with module.lease("GPU-1", "time of silu", sys.argv[2] == "alone", Stop()):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    return tmp_path


@contextmanager
def other_process(folder: Path, how: str) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), how], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == "held\n"
        yield child
    finally:
        child.kill()
        child.wait()


def had(*, alone: bool, uuid: str = "GPU-1") -> bool:
    """Whether a lease is had without waiting for anyone."""
    stop = Stop()
    try:
        with lease(uuid, "check", alone, stop, lambda words: stop.set()):
            return True
    except Cancelled:
        return False


@pytest.mark.parametrize(
    ("theirs", "alone", "shared"),
    [
        ("alone", True, False),
        ("alone", False, False),
        ("shared", True, False),
        ("shared", False, True),
    ],
)
def test_a_measurement_is_alone_and_checks_share(
    folder: Path, theirs: str, alone: bool, shared: bool
) -> None:
    with other_process(folder, theirs):
        assert had(alone=alone) is shared
        assert had(alone=True, uuid="GPU-2")
    assert had(alone=True)


def test_a_killed_process_leaves_no_lock_behind(folder: Path) -> None:
    with other_process(folder, "alone") as child:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        assert had(alone=True)


def test_whoever_waits_is_told_who_holds_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TELL_S", 0.1)
    told: list[str] = []
    stop = Stop()
    with other_process(folder, "alone") as child:

        def tell(words: str) -> None:
            told.append(words)
            if len(told) == 2:
                stop.set()

        with pytest.raises(Cancelled), lease("GPU-1", "check", False, stop, tell):
            pytest.fail("two hold it")
    assert len(told) >= 2 and all(f"time of silu (process {child.pid} of" in t for t in told)


def test_a_waiting_measurement_closes_the_door_to_later_checks(folder: Path) -> None:
    order: list[str] = []

    at_the_door = threading.Event()

    def measure() -> None:
        with lease("GPU-1", "time", True, Stop(), lambda words: at_the_door.set()):
            order.append("measurement")

    with lease("GPU-1", "check", False, Stop()):
        waiting = threading.Thread(target=measure)
        waiting.start()
        assert at_the_door.wait(60)
        assert not had(alone=False)
        order.append("check ends")
    waiting.join(timeout=5)
    assert order == ["check ends", "measurement"]


def test_other_users_can_lock_the_files(folder: Path) -> None:
    before = os.umask(0o077)
    try:
        assert had(alone=True)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o666}


def test_a_link_or_a_folder_in_its_place_is_not_followed(folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (folder / "astra-gpu-GPU-1.lock").symlink_to(victim)
    with pytest.raises(MissingDependency, match=r"astra-gpu-GPU-1\.lock"):
        had(alone=True)
    assert victim.read_text() == "mine"
    (folder / "astra-gpu-GPU-3.lock").mkdir()
    with pytest.raises(MissingDependency, match="remove"):
        had(alone=True, uuid="GPU-3")


@pytest.mark.parametrize("text", ["", "{", '{"pid": 999999999, "user": "a", "work": "b"}', "[1]"])
def test_what_anyone_may_have_written_there_does_no_harm(folder: Path, text: str) -> None:
    path = folder / "room"
    path.write_text(text)
    with path.open() as file:
        assert module._holder(file.fileno()) == "another Astra process has locked it"
