"""A child that holds more than its share of the machine is noticed, its own children included."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from astra_chat.tools.system import memory_watch
from astra_chat.tools.system.memory_watch import MemoryWatch, StepMemory

HOLDS = "held = bytearray(64 * 2**20); print('held', flush=True); input()"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLDS!r}])"


@pytest.mark.parametrize("program", [HOLDS, PARENT])
def test_what_a_child_and_its_children_hold_counts(
    monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    """48 MiB are allowed, 64 are held."""
    share = 48 * 2**20 / (os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        MemoryWatch(child.pid).check()
        monkeypatch.setattr(memory_watch, "RESIDENT_SHARE", share)
        with pytest.raises(StepMemory):
            MemoryWatch(child.pid).check()
        child.communicate(b"\n")
