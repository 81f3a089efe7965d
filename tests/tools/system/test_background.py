"""Work in the background: once, waited for, and silent about what fails."""

from __future__ import annotations

import threading

import pytest

from astra_chat.tools.system.background import Background
from astra_chat.tools.system.subprocesses import Cancelled
from astra_vgpu.ground.errors import BadInput, MissingDependency


def test_it_is_done_once_and_waited_for() -> None:
    done: list[int] = []
    begin = threading.Event()

    def work() -> None:
        begin.wait(10)
        done.append(1)

    background = Background(work)
    background.wait()
    assert not background.running
    background.start()
    background.start()
    assert background.running and not done
    begin.set()
    background.wait()
    assert done == [1] and not background.running


@pytest.mark.parametrize("error", [BadInput, MissingDependency, Cancelled, OSError])
def test_what_fails_is_left_to_whoever_needs_it(
    error: type[Exception], capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        raise error("no")

    background = Background(work)
    background.start()
    background.wait()
    assert capsys.readouterr().err == ""
