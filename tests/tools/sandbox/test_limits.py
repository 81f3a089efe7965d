"""launch.py: limits and privileges of a child."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, resource
from astra_chat.tools.sandbox.launch import drop_capabilities, limit
{tried}
"""


def ended(tried: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(tried=tried)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_sizes() -> None:
    status, said = ended(
        "limit(2**30, 4096)\n"
        "print(*map(resource.getrlimit, (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE)))\n"
        "bytearray(2 * 2**30)"
    )
    assert status == 1 and "(0, 0) (4096, 4096)" in said and "MemoryError" in said


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_the_child_goes_first_when_memory_ends() -> None:
    assert ended("limit(None, 1)\nprint(open('/proc/self/oom_score_adj').read())")[1] == "1000\n\n"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_root_keeps_its_name_only() -> None:
    tried = (
        "drop_capabilities()\n"
        "print([l.split()[1] for l in open('/proc/self/status') if l.startswith('CapEff')][0])"
    )
    status, said = ended(tried)
    assert status == 0 and int(said, 16) in (0, 4)
