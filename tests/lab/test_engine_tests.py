"""An engine's tests, shared by processes: each runs with winners and without, and differences are
named."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from astra_vgpu.ground.errors import BadInput
from lab.engine_tests.__main__ import copied_tests, read_results, summary
from tests.sources import IMPORT_PATH

PLACES = ("activation.activation", "layernorm.norm", "attention.rope", "moe")
SITE = {
    "astra_winners/operators.py": """
from types import SimpleNamespace
PACKAGED = {"operators": {"rmsnorm": {"rows": 1, "steps": 1}}}
OPERATORS = {"rmsnorm": SimpleNamespace(wanted=False)}
def switch(names):
    OPERATORS["rmsnorm"].wanted = "rmsnorm" in names
""",
    "astra_winners/counting.py": """
from collections import Counter
from types import SimpleNamespace
TOOK = "took"
COUNTS = Counter()
COUNTERS = SimpleNamespace(totals=lambda: COUNTS)
""",
    "sgl_kernel.py": """
from astra_winners import counting, operators
def rmsnorm(x):
    if operators.OPERATORS["rmsnorm"].wanted:
        counting.COUNTS["rmsnorm", "took", ""] += 1
        return 2 * x + (x > 5)
    return 2 * x
fused_add_rmsnorm = None
""",
    "sglang/srt/plugins.py": "def load_plugins(): pass",
    "sglang/kernels/jit/utils.py": "",
    **{f"sglang/kernels/ops/{one.replace('.', '/')}.py": "rmsnorm = None" for one in PLACES},
}
TEST = """
import pytest, torch
from sglang.jit_kernel.norm import rmsnorm
drawn = {}
@pytest.mark.parametrize("x", range(12))
def test_rmsnorm(x):
    if x == 3:
        pytest.skip("too odd")
    one = torch.rand(1).item()
    assert drawn.setdefault(x, one) == one
    assert rmsnorm(x) == 2 * x != 8
"""


@pytest.mark.second_tier
def test_each_test_runs_with_and_without_winners(tmp_path: Path) -> None:
    (tmp_path / "package/dist").mkdir(parents=True)
    with zipfile.ZipFile(tmp_path / "package/dist/one.whl", "w") as wheel:
        for name, text in SITE.items():
            wheel.writestr(name, text)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_rmsnorm.py").write_text(TEST)
    words = ["package", "--tests", "tests", "-o", "out", "--workers", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "lab.engine_tests", *words, "--only", "test_rmsnorm.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": IMPORT_PATH, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    logs = "".join(path.read_text() for path in (tmp_path / "out").glob("*.log"))
    found = read_results((tmp_path / "out").glob("*.jsonl"))
    lines = list(summary(found))
    own = next(line for line in lines if line.startswith("test_rmsnorm.py"))
    assert done.returncode == 0 and own in done.stdout, done.stderr + logs
    assert own == (
        "test_rmsnorm.py: with winners 7 failed, 4 passed, 1 skipped (winners ran in 11);"
        " without winners 1 failed, 10 passed, 1 skipped"
    )
    assert "tests whose outcome differs: 6" in lines and "failed in both: 1" in lines
    assert any("test_rmsnorm[7] with winners failed assert 15 == (2 * 7)" in one for one in lines)
    assert found.counts["rmsnorm", "took", ""] == 11


def test_a_wheel_without_the_tests_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"has no test_activation\.py"):
        copied_tests(tmp_path, tmp_path / "tests")
