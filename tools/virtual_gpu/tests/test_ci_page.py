"""docs/ci.md: the commands of its workflow run as they stand there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/ci.md").read_text()
COMMAND = re.compile(r"- run: astra-vgpu (.*)")


@pytest.mark.second_tier
def test_the_workflows_command_runs_and_leaves_what_is_uploaded(tmp_path: Path) -> None:
    (command,) = COMMAND.findall(PAGE)

    shutil.copy(ROOT / "tests/programs/faulty.cu", tmp_path / "app.cu")
    words = [sys.executable, "-m", "astra_vgpu", *command.split()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert done.returncode == 1, done.stderr
    (uploaded,) = re.findall(r"sarif_file: (\S+?)}", PAGE)
    results = json.loads((tmp_path / uploaded).read_text())["runs"][0]["results"]
    places = [result["locations"][0]["physicalLocation"] for result in results]
    assert {place["artifactLocation"]["uri"] for place in places} == {"app.cu"}
