"""Work in the background: once, waited for, and silent about what fails."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

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


ENDS_AT_ONCE = """
import sys
from pathlib import Path
from astra_chat.tools.system.background import remove_soon
for name in sys.argv[1:]:
    remove_soon(Path(name))
"""


def test_what_is_not_removed_when_python_ends_is_removed_after_it(tmp_path: Path) -> None:
    folders = [tmp_path / f"{number}" for number in range(4)]
    for folder in folders:
        for file in range(500):
            (folder / f"{file}").mkdir(parents=True)
    subprocess.run([sys.executable, "-c", ENDS_AT_ONCE, *folders], check=True)
    while list(tmp_path.iterdir()):  # the suite's limit ends what hangs
        os.sched_yield()
