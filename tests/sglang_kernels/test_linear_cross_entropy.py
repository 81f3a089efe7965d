"""The task linear_cross_entropy: its reference is PyTorch's cross-entropy, its script is what its
files say, and its calls need far less memory than PyTorch's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from astra_chat.models.script import load_script
from astra_chat.tools.runners.values import DrawnCase
from astra_chat.tools.task.folder import find_task
from tests.sglang_kernels import shipped

TASK = find_task("linear_cross_entropy")
SCRIPT = load_script(TASK)
KERNELS = shipped.kernels(TASK)
REFERENCE = shipped.reference(TASK)


@pytest.mark.parametrize("name", shipped.sound(TASK, SCRIPT))
def test_kernel_exports_the_prototype(name: str, tmp_path: Path) -> None:
    shipped.require_prototype(TASK, KERNELS[name], tmp_path)


def test_the_script_holds_to_its_form() -> None:
    shipped.require_anchors(TASK, SCRIPT)
    shipped.require_new_cases(TASK, SCRIPT)


def inputs_of(tokens: int, d: int, vocab: int, target: list[int]) -> dict[str, Any]:
    dims = {"tokens": tokens, "d": d, "vocab": vocab}
    case = DrawnCase(dims, torch.bfloat16, "normal")
    drawn = REFERENCE.make_inputs(case, torch.Generator().manual_seed(3))
    return {**drawn, "target": torch.tensor(target)}


def test_the_reference_is_cross_entropy_of_unrounded_logits() -> None:
    inputs = inputs_of(4, 64, 9000, [0, 8999, -100, 8192])
    logits = torch.nn.functional.linear(inputs["hidden"].double(), inputs["weight"].double())
    wanted = torch.nn.functional.cross_entropy(logits, inputs["target"], reduction="none")
    loss = REFERENCE.reference(inputs)["loss"]
    assert loss.tolist() == pytest.approx(wanted.tolist(), rel=1e-12)
    assert loss[2] == 0 and loss.dtype == torch.float64


def test_rows_of_the_weight_differ() -> None:
    weight = inputs_of(1, 16, 9000, [0])["weight"]
    assert len(weight.unique(dim=0)) == 9000


def test_logits_in_bfloat16_are_outside_the_tolerance() -> None:
    inputs = inputs_of(64, 2048, 4096, list(range(64)))
    loss = REFERENCE.reference(inputs)["loss"]
    logits = torch.nn.functional.linear(inputs["hidden"].float(), inputs["weight"].float())
    for rounded, passes in ((logits, True), (logits.bfloat16().float(), False)):
        got = torch.nn.functional.cross_entropy(rounded, inputs["target"], reduction="none")
        allowed = TASK.tolerance["float32"]
        off = (got - loss).abs() > allowed.atol + allowed.rtol * loss.abs()
        assert bool(off.any()) != passes


def test_a_call_has_no_room_for_two_fifths_of_eager_memory() -> None:
    assert TASK.memory is not None
    scratch = next(arg for arg in TASK.args if arg.access == "workspace")
    for case, _ in TASK.bench:
        assert scratch.bytes_of(case) < 0.4 * TASK.memory.eager_bytes(TASK, case)
