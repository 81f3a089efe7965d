"""docs/capture.md, run: every command of it, in order, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from astra_chat.tools.task.folder import load_task

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(
    r"^```bash\n(.*?)^```$", (ROOT / "docs" / "capture.md").read_text(), re.DOTALL | re.MULTILINE
)
SCRIPT = '#!/bin/sh\nexec "{python}" {more} "$@"\n'


@pytest.mark.second_tier
def test_the_page_s_commands_make_a_task(tmp_path: Path) -> None:
    tools, folder = tmp_path / "bin", tmp_path / "work"
    tools.mkdir()
    folder.mkdir()
    for name, more in (("astra-chat", "-m astra_chat"), ("python", "")):
        (tools / name).write_text(SCRIPT.format(python=sys.executable, more=more))
        (tools / name).chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    said = []
    for text in BLOCKS:
        done = subprocess.run(
            ["bash", "-e", "-c", text],
            cwd=folder,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        said.append(done.stdout)
    assert "norms:rms_norm: 100 calls, 3 different" in said[0]
    task = load_task(folder / "my_rms")
    assert task.reference == "norms:rms_norm" and (folder / "my_rms" / "norms.py").is_file()
    assert [(case.dims["tokens"], weight) for case, weight in task.bench] == [
        (1, 90),
        (16, 9),
        (300, 1),
    ]
    assert task.dims["hidden"].values == (1024,) and task.scalars[0].value == 1e-5
    assert "3 timed cases, covering 100.0% of the calls" in said[2]
