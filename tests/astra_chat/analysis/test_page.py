"""docs/analysis.md, run: each block prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import IMPORT_PATH

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "analysis.md").read_text()
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
END = "--- end of block ---"


@pytest.mark.second_tier
def test_every_block_prints_what_the_page_says() -> None:
    blocks = BLOCK.findall(PAGE)
    program = "".join(f"{text}\nprint({END!r})\n" for text, _ in blocks)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": IMPORT_PATH},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split(f"{END}\n")[:-1]
    assert len(printed) == len(blocks) == 8
    for (_, expected), found in zip(blocks, printed, strict=True):
        lines = [line.rstrip() for line in found.splitlines()]
        assert lines == expected.splitlines()
