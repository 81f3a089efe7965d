"""A child that waits for its request: started early, asked late, or never."""

from __future__ import annotations

import sys
import time

import pytest

from astra_chat.tools.process import Cancelled, StepTimeout, Stop
from astra_chat.tools.sandbox.walls import Walls
from astra_chat.tools.waiting import Waiting


def waiting(body: str) -> Waiting:
    return Waiting(
        lambda folder: [sys.executable, "-c", f"import sys\n{body}", str(folder)],
        lambda folder: Walls(write=(folder,)),
    )


def test_it_loads_before_it_is_asked() -> None:
    child = waiting(
        "open(sys.argv[1] + '/up', 'w').close()\nline = sys.stdin.readline()\nprint('heard', line)"
    )
    deadline = time.monotonic() + 30.0
    while not (child.folder / "up").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (child.folder / "up").exists()
    end = child.ask('{"a": 1}', 10.0, Stop())
    assert (end.returncode, end.output.strip()) == (0, 'heard {"a": 1}')
    child.close()
    assert not child.folder.exists()


def test_a_request_that_comes_before_it_is_up_is_not_lost() -> None:
    child = waiting("import time; time.sleep(0.3); print(len(sys.stdin.readline()))")
    assert child.ask("x" * 30_000, 20.0, Stop()).output.strip() == "30001"
    child.close()


def test_it_may_never_be_asked() -> None:
    child = waiting("sys.stdin.readline()")
    start = time.monotonic()
    child.close()
    assert time.monotonic() - start < 10.0 and not child.folder.exists()


def test_its_time_runs_from_the_request() -> None:
    child = waiting("sys.stdin.readline()\nimport time; time.sleep(60)")
    with pytest.raises(StepTimeout):
        child.ask("", 0.2, Stop())
    child.close()


def test_it_can_be_stopped() -> None:
    child, stop = waiting("sys.stdin.readline()\nimport time; time.sleep(60)"), Stop()
    stop.set()
    with pytest.raises(Cancelled):
        child.ask("", 30.0, stop)
    child.close()


def test_one_that_died_before_is_told() -> None:
    child = waiting("sys.exit(7)")
    time.sleep(0.1)
    assert child.ask("hello", 20.0, Stop()).returncode == 7
    child.close()
