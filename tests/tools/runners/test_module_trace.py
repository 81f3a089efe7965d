"""A PyTorch module is read into a contract, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from astra_chat.tools.runners.module_trace import contract_of
from astra_chat.tools.runners.modules import BadModule
from tests.tools.new.module_samples import HEAD, MODULES, REFUSED


def _contract(folder: Path, text: str) -> dict[str, Any]:
    file = folder / "problem.py"
    file.write_text(HEAD + text)
    return contract_of(file, "Model")


def test_equal_sizes_share_a_dim_and_those_of_weights_are_numbers(tmp_path: Path) -> None:
    found = _contract(tmp_path, MODULES["mlp"])
    assert found["inputs"] == {"x": {"dtype": "float32", "shape": ["batch", "d1", "32"]}}
    assert list(found["weights"]) == ["up_weight", "up_bias", "down_weight"]
    assert found["dims"] == {"batch": 4, "d1": 6}
    assert {"batch": 1, "d1": 1} in found["sizes"] and {"batch": 7, "d1": 7} in found["sizes"]
    assert found["ranges"]["up_bias"] == [-0.2, 0.2] and found["ranges"]["x"] == [-4.0, 4.0]
    assert not found["tensor_float32"]


def test_sizes_are_called_as_in_the_file(tmp_path: Path) -> None:
    found = _contract(tmp_path, MODULES["product"])
    assert found["dims"] == {"m": 24, "k": 64, "n": 40}
    assert found["outputs"] == [{"dtype": "float32", "shape": ["m", "n"]}]


def test_a_size_in_a_formula_of_floats_is_a_number(tmp_path: Path) -> None:
    found = _contract(tmp_path, MODULES["attention"])
    assert found["inputs"]["q"]["shape"] == ["batch", "d1", "16"]


def test_several_results_and_buffers(tmp_path: Path) -> None:
    assert len(_contract(tmp_path, MODULES["row_means"])["outputs"]) == 2
    found = _contract(tmp_path, MODULES["conv_block"])
    assert found["outputs"][0]["shape"] == ["batch", "5", "d1 // 2", "d2 // 2"]
    low, high = found["ranges"]["bn_running_var"]
    assert 0 < low < 1 < high and "bn_num_batches_tracked" not in found["weights"]


def test_inputs_are_positive_where_others_give_no_numbers(tmp_path: Path) -> None:
    low, high = _contract(tmp_path, MODULES["cumulated"])["ranges"]["x"]
    assert 0 < low < high


def test_tf32_is_allowed_where_the_file_allows_it(tmp_path: Path) -> None:
    before = torch.get_float32_matmul_precision()
    try:
        text = 'torch.set_float32_matmul_precision("high")\n' + MODULES["product"]
        assert _contract(tmp_path, text)["tensor_float32"]
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("said", REFUSED)
def test_what_no_task_holds_is_refused_by_name(said: str, tmp_path: Path) -> None:
    with pytest.raises(BadModule) as error:
        _contract(tmp_path, REFUSED[said])
    assert said in str(error.value) and "\n" not in str(error.value)
