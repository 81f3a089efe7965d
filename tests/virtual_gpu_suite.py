"""The virtual GPU's second tier runs once for each state of its files.

It is a third of the second tier, and depends on nothing but the virtual GPU's package, its tests,
nvcc and Python. So `python -m tests.virtual_gpu_suite` runs both tiers of these tests and, only if
they pass, adds a line to RECORD; while the state is that of a line, the second tier leaves them
out. The first tier is never left out.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from astra_vgpu.ground.toolkit import host_tool_versions

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("tools/virtual_gpu/astra_vgpu", "tools/virtual_gpu/tests")
TESTS = FOLDERS[1]
RECORD = ROOT / TESTS / "passed.txt"
"""One line for each state that passed: nvcc's version, Python's, and the sha256 of the files."""


def files() -> Iterator[Path]:
    """What the suite's outcome depends on, in a fixed order."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path != RECORD:
                yield path


def state() -> str:
    """The line of RECORD for the files as they are, with this nvcc and this Python."""
    content = hashlib.sha256()
    for path in files():
        content.update(f"{path.relative_to(ROOT).as_posix()}\n".encode())
        content.update(hashlib.sha256(path.read_bytes()).digest())
    nvcc = host_tool_versions()["nvcc"]
    return f"nvcc {nvcc} python {sys.version_info[0]}.{sys.version_info[1]} {content.hexdigest()}"


def has_passed() -> bool:
    """Whether a full run passed with this state."""
    return RECORD.is_file() and state() in RECORD.read_text().splitlines()


def is_covered(item: pytest.Item) -> bool:
    """Whether a full run of the suite says what this test says."""
    return item.path.is_relative_to(ROOT / TESTS)


def main() -> int:
    """Run both tiers; if they pass, record the state. Returns pytest's exit code."""
    before, code = state(), 0
    if has_passed():
        print("nothing to do: this state has passed")
        return 0
    for tier in ("first", "second"):
        options = ["-q", "-n", "auto", "--dist", "load", "--tier", tier, TESTS]
        done = subprocess.run([sys.executable, "-m", "pytest", *options], cwd=ROOT)
        code = code or done.returncode
    if code == 0 and state() == before:
        python = " ".join(before.split()[:4])
        lines = RECORD.read_text().splitlines() if RECORD.is_file() else []
        kept = [line for line in lines if not line.startswith(python)]
        RECORD.write_text("\n".join(sorted([*kept, before])) + "\n")
        print(f"recorded in {RECORD.relative_to(ROOT)}: commit it")
    return code


if __name__ == "__main__":
    sys.exit(main())
