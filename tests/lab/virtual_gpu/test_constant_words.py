"""The program that measures constant loads runs and is right; its rows give slopes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lab.virtual_gpu.constant_words import SOURCE, LoadRow, constants, read_rows, report, slope


@pytest.mark.second_tier
def test_the_program_runs_on_the_virtual_gpu_and_computes_what_it_should() -> None:
    """Its cycles mean nothing there; it fails where a lane has another number."""
    command = [sys.executable, "-m", "astra_vgpu", "run", str(SOURCE), "--"]
    done = subprocess.run([*command, "1", "2"], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("GPU: "))
    _, rows = read_rows("\n".join(lines[first : first + 15]))
    assert [(r.words, r.stride) for r in rows] == [
        (words, stride) for stride in (1, 32) for words in (1, 2, 4, 8, 16, 24, 32)
    ]


def test_the_slopes_are_cycles_for_each_further_word() -> None:
    assert slope([1, 2, 4, 32], [30 + 3.5 * w for w in (0, 1, 3, 31)]) == pytest.approx(3.5)
    rows = [LoadRow(w, 1, 26 + 2.0 * w, 1 + 4.0 * w) for w in (1, 8, 32)]
    assert "2.00 cycles of a lone warp and 4.00 of the SM" in report(rows)[-1]


@pytest.mark.gpu
def test_more_words_take_longer_on_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    constants()
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines() if line.strip()[:1].isdigit()]
    lone = {(int(r[0]), int(r[1])): float(r[2]) for r in rows}
    assert all(lone[32, stride] > 2 * lone[1, stride] > 0 for stride in (1, 32))
