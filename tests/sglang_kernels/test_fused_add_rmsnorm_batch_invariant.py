"""The task fused_add_rmsnorm_batch_invariant: its script is what its files say. Kernels whose rows
depend on the batch are in tests/tools/check/test_same_rows.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.models.script import load_script
from astra_chat.tools.task.folder import find_task
from tests.sglang_kernels import shipped

TASK = find_task("fused_add_rmsnorm_batch_invariant")
SCRIPT = load_script(TASK)
KERNELS = shipped.kernels(TASK)


@pytest.mark.parametrize("name", shipped.sound(TASK, SCRIPT))
def test_kernel_exports_the_prototype(name: str, tmp_path: Path) -> None:
    shipped.require_prototype(TASK, KERNELS[name], tmp_path)


def test_the_script_holds_to_its_form() -> None:
    shipped.require_anchors(TASK, SCRIPT)
    shipped.require_new_cases(TASK, SCRIPT)


def test_the_contract_is_that_of_the_plain_norm_with_the_property() -> None:
    """So that what the property costs is the ratio of two winners."""
    plain = find_task("fused_add_rmsnorm")
    assert TASK.batch_invariant is not None and plain.batch_invariant is None
    assert set(TASK.batch_invariant.outputs) == {arg.name for arg in TASK.args if arg.written}
    assert (TASK.flags, TASK.tolerance, TASK.precision) == (
        plain.flags,
        plain.tolerance,
        plain.precision,
    )
