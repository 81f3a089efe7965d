"""Kernels of others on the virtual GPU: here those of a header that stands for FlashInfer's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.task.folder import find_task
from lab.baselines.__main__ import main
from lab.baselines.checked import Checked, check
from lab.baselines.foreign import Places

HEADER = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
namespace flashinfer::activation {
template <typename T, float (*Activation)(const float&)>
__global__ void act_and_mul_kernel(T* out, const T* input, const int d) {
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const T* row = input + blockIdx.x * 2ll * d;
    const float up = static_cast<float>(row[d + i]);
    out[blockIdx.x * static_cast<long long>(d) + i] = T(Activation(float(row[i])) * up WHAT);
  }
}
}
"""


def checked(folder: Path, what: str) -> list[Checked]:
    (folder / "flashinfer").mkdir()
    (folder / "flashinfer/activation.cuh").write_text(HEADER.replace("WHAT", what))
    places = Places(flashinfer=folder)
    return list(check(find_task("silu_and_mul"), places, virtual_device("h200"), 2))


@pytest.mark.second_tier
def test_a_right_kernel_is_within_the_tolerance(tmp_path: Path) -> None:
    found = checked(tmp_path, "")
    assert len(found) == 2 and all(not one.wrong and 0 < one.share <= 1 for one in found)
    assert str(found[0]).startswith("headers, sglang: 1x3584 bfloat16: 0.")


@pytest.mark.second_tier
def test_a_wrong_kernel_and_one_that_does_not_build_are_said(tmp_path: Path) -> None:
    for name, what, said in (("a", "* 1.1f", "expected"), ("b", "+ nothing", "does not build")):
        (tmp_path / name).mkdir()
        found = checked(tmp_path / name, what)
        assert found and all(said in one.wrong and said in str(one) for one in found)


@pytest.mark.second_tier
def test_the_command_prints_a_line_for_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    checked(tmp_path, "")
    words = ["check", "--task", "silu_and_mul", "--cases", "1", "--flashinfer", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["baselines", *words])
    main()
    assert capsys.readouterr().out.startswith("silu_and_mul: headers, sglang: 1x3584 bfloat16: 0.")
