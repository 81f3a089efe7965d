"""`astra-chat torch` where there is no GPU: each baseline is named with the reason."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from astra_chat.cli.beside_torch import lines
from astra_chat.cli.main import app
from astra_chat.tools.timing.module_times import NO_GPU, BesideModule
from astra_vgpu.ground.errors import BadInput
from tests.tools.runners.small_module import small_mlp


def test_no_baseline_is_left_out_without_a_gpu(tmp_path: Path) -> None:
    folder = str(small_mlp(tmp_path))
    given = ["torch", folder, "--device", "virtual", "--trust", "--json"]
    ended = CliRunner().invoke(app, given)
    assert ended.exit_code == 1
    found = BesideModule.model_validate(json.loads(ended.stdout))
    assert {one.not_run for one in found.times} == {NO_GPU} and not found.ran
    shown = "\n".join(lines(found))
    assert shown.count(f"not run: {NO_GPU}") == 4
    assert "TF32 for float32 matrix products and convolutions: off" in shown


def test_a_task_without_a_module_is_one_line() -> None:
    ended = CliRunner().invoke(app, ["torch", "silu_and_mul", "--device", "virtual", "--trust"])
    assert isinstance(ended.exception, BadInput)
    assert str(ended.exception).startswith("silu_and_mul has no PyTorch module")
