"""Programs beside a measurement are repeated, and end with it."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from lab.busy_noise import Repeated, main

ONCE = "import os, sys; os.write(os.open(sys.argv[1], os.O_WRONLY), b'x')"
ENDLESS = "import time; time.sleep(600)"


def test_a_program_is_repeated_until_the_end(tmp_path: Path) -> None:
    line = tmp_path / "line"
    os.mkfifo(line)
    with Repeated([sys.executable, "-c", ONCE, str(line)]) as repeated:
        for _ in range(2):
            assert line.read_bytes()
    assert repeated.runs >= 1 and not repeated._thread.is_alive()


def test_one_that_runs_is_ended() -> None:
    with Repeated([sys.executable, "-c", ENDLESS]) as repeated:
        while repeated._now is None:
            threading.Event().wait(0.01)
    assert repeated._now.returncode is not None and repeated.runs == 0


def test_one_that_fails_is_not_started_again() -> None:
    with Repeated([sys.executable, "-c", "raise SystemExit(3)"]) as repeated:
        repeated._thread.join(60)
        assert not repeated._thread.is_alive() and repeated.runs == 0


def test_an_estimate_has_no_noise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["busy_noise", "silu_and_mul", "--device", "virtual"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2 and "noise is measured on a GPU" in capsys.readouterr().err
