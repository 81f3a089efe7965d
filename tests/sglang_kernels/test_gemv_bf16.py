"""The task gemv_bf16: its script is what its files say, and its timed cases are those that are
served."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.models.script import load_script
from astra_chat.tools.task.folder import find_task
from tests.sglang_kernels import shipped

TASK = find_task("gemv_bf16")
SCRIPT = load_script(TASK)
KERNELS = shipped.kernels(TASK)


@pytest.mark.parametrize("name", shipped.sound(TASK, SCRIPT))
def test_kernel_exports_the_prototype(name: str, tmp_path: Path) -> None:
    shipped.require_prototype(TASK, KERNELS[name], tmp_path)


def test_the_script_holds_to_its_form() -> None:
    shipped.require_anchors(TASK, SCRIPT)
    shipped.require_new_cases(TASK, SCRIPT)


def test_served_matrices_are_timed_by_few_rows() -> None:
    """Projections of three models and LM heads; most steps serve one request."""
    assert {c.dims["m"] for c, _ in TASK.bench} == {1, 2, 4, 8, 16}
    one = sum(weight for case, weight in TASK.bench if case.dims["m"] == 1)
    assert one > 0.6 * sum(weight for _, weight in TASK.bench)
    assert max(c.dims["k"] for c, _ in TASK.bench) == TASK.dims["k"].max == 14336
    assert {c.dims["n"] for c, _ in TASK.bench} >= {2048, 4096, 5120, 6144, 24576, 28672, 151936}
