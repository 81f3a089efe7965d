"""What runs beside a measurement is repeated, and ends with it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lab.busy_noise import repeated


def test_a_program_is_repeated_until_the_end(tmp_path: Path) -> None:
    os.mkfifo(line := tmp_path / "line")
    with repeated([sys.executable, "-c", f"open({str(line)!r}, 'w').write('x')"]) as shell:
        assert [line.read_text() for _ in range(2)] == ["x", "x"] and shell.poll() is None
    assert shell.returncode is not None


def test_one_that_fails_is_not_started_again() -> None:
    with repeated([sys.executable, "-c", "raise SystemExit(3)"]) as shell:
        assert shell.wait(60) == 0
