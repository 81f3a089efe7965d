"""The decode layer: torch's part on the processor beside a plain one, the committed table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from astra_chat.tools.build.tvm_ffi_binding import parameter_names
from astra_chat.tools.recordings.reading import expanded
from astra_chat.tools.task.folder import find_task
from astra_vgpu.ground.errors import BadInput
from lab import decode_step
from lab.decode_layer import TASKS, document, read_layer, winners
from tests.recorded_files import LIVE, live_runs

ROOT = Path(__file__).resolve().parents[2]
RECORDED = expanded([LIVE / "decode-layer-*.json"])
RUNS = live_runs()


def plain(name: str) -> Any:
    """A task's kernel in torch, by its module's parameters; without the rope and the alignment,
    which change nothing that the layer's products read."""
    names = parameter_names(find_task(name))

    def run(*arguments: Any) -> None:
        assert len(arguments) == len(names), name
        given = dict(zip(names, arguments, strict=True))
        if name == "fused_add_rmsnorm":
            total = given["residual"].add_(given["input"])
            width = (total.shape[-1],)
            given["input"].copy_(functional.rms_norm(total, width, given["weight"], given["eps"]))
        elif name == "topk_softmax":
            chosen = given["gating"].float().softmax(-1).topk(given["topk_ids"].shape[-1])
            given["topk_weights"].copy_(chosen.values / chosen.values.sum(-1, keepdim=True))
            given["topk_ids"].copy_(chosen.indices)
        elif name == "silu_and_mul":
            gate, up = given["input"].chunk(2, dim=-1)
            given["out"].copy_(functional.silu(gate) * up)
        elif name == "moe_sum_reduce":
            given["output"].copy_(given["input"].float().sum(1) * given["scale"])

    return run


def test_a_step_is_a_layer_of_experts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a loop over tokens and their experts."""
    monkeypatch.setattr(decode_step, "EXPERTS", 16)
    monkeypatch.setattr(decode_step, "MAX_POSITION", 1024)
    kernels = {name: plain(name) for name in TASKS}
    layer = decode_step.RunnableLayer(3, "cpu")
    layer.route(kernels)
    layer.restore()
    layer.step(kernels)
    hidden, expected = layer.state[0], torch.zeros(3, decode_step.HIDDEN)
    for token in range(3):
        for weight, expert in zip(layer.weights[token], layer.ids[token], strict=True):
            gate, up = (hidden[token] @ layer.up[expert]).chunk(2)
            made = (functional.silu(gate) * up) @ layer.down[expert]
            expected[token] += float(weight) * made.float()
    assert torch.allclose(layer.result.float(), expected, rtol=0.05, atol=0.02)
    assert int(layer.ends[-1]) == 3 * decode_step.TOPK
    layer.restore()
    layer.step({})  # torch's part alone


def test_h200_and_h100_are_committed() -> None:
    assert [path.stem for path in RECORDED] == ["decode-layer-h100", "decode-layer-h200"]
    with pytest.raises(BadInput, match="contains no measurement of a decode layer"):
        read_layer(ROOT / "README.md")


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
@pytest.mark.second_tier
def test_the_committed_measurement_is_of_winners(path: Path) -> None:
    layer = read_layer(path)
    assert set(layer.candidates) == set(TASKS) and [s.tokens for s in layer.steps] == [1, 8, 64]
    assert document(layer) in (ROOT / "docs/research/decode-layer.md").read_text()
    assert layer.candidates.keys() == winners(RUNS).keys()


@pytest.mark.second_tier
def test_a_task_without_a_run_is_named() -> None:
    with pytest.raises(BadInput, match="moe_sum_reduce"):
        winners([path for path in RUNS if "moe_sum_reduce" not in path.name])
