"""What a user's type checker sees of an Astra that `make setup` installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

USER_FILE = """\
from astra_chat import BadInput, Judge, arun, evaluate, run

reveal_type(run("silu_and_mul"))
reveal_type(evaluate("silu_and_mul", "kernel"))
reveal_type(BadInput("no"))


async def later() -> None:
    reveal_type(await arun("silu_and_mul", rounds=1))


def check(judge: Judge) -> None:
    reveal_type(judge.check("kernel"))
"""
CACHE = Path(__file__).resolve().parents[1] / ".mypy_cache" / "outside"
"""Kept from run to run, beside that of `make check`, whose options differ."""
SEEN = (
    "astra_chat.session.results.RunResult",
    "astra_chat.judging.evaluating.EvaluationReport",
    "astra_vgpu.ground.errors.BadInput",
    "astra_chat.tools.evaluation.Evaluation",
)


@pytest.mark.second_tier
def test_a_user_s_file_outside_the_checkout_is_type_checked(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(USER_FILE)
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MYPYPATH")}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(CACHE), "mine.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    for name in SEEN:
        assert f'Revealed type is "{name}"' in done.stdout, done.stdout
    assert done.stdout.count("session.results.RunResult") == 2, "arun is awaited to the same"
