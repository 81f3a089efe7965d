"""What a user's type checker sees of an Astra that `make setup` installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

USER_FILE = """\
from astra_chat import run

reveal_type(run("silu_and_mul"))
"""


def test_a_user_s_file_outside_the_checkout_is_type_checked(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(USER_FILE)
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MYPYPATH")}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "mine.py"],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert 'Revealed type is "astra_chat.session.session.RunResult"' in done.stdout
