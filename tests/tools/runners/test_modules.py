"""A module's own inputs: of large ones only the shape and the size of values are needed."""

from __future__ import annotations

import resource
from pathlib import Path

import torch

from astra_chat.tools.runners.modules import LARGE, ModuleFunction, loaded

FILE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.relu(x) + y
def get_inputs():
    return [torch.rand(4, 2**29), torch.randn(3, 5)]
def get_init_inputs():
    return []
"""


def test_inputs_of_gigabytes_take_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(FILE)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    values = ModuleFunction(loaded(file, "large_module").Model).values
    assert values["x"].shape == (4, 2**29) and values["x"].is_contiguous()
    assert values["x"].numel() > LARGE
    sample = values["x"][0, :1000]
    assert 0.9 < float(sample.max()) <= 1.0 and len(torch.unique(sample)) > 900
    assert float(values["y"].min()) < 0
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    assert grown_kib < 2**20, "the whole 8 GiB were touched"
