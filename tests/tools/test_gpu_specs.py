"""Constants of GPUs: complete, consistent with each other, found by name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from astra_vgpu.ground import gpu_specs
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.gpu_specs import SPECS, GpuSpec, spec, spec_for_device_name

ROOT = Path(__file__).resolve().parents[2]


def test_an_unknown_gpu_is_bad_input_and_the_known_ones_are_named() -> None:
    with pytest.raises(
        BadInput, match="'b300': known are h200, h100, b200, a100, l40s, rtx4090, rtx5090"
    ):
        spec("b300")
    assert spec("H200").name == "NVIDIA H200"


def test_every_constant_names_its_source() -> None:
    """All but a GPU's names; defaults of the class too."""
    text = Path(gpu_specs.__file__).read_text()
    given = re.findall(r"^    (\w+)(?:: \w+)? ?= ?[^#\n]*?(#.*)?$", text, re.MULTILINE)
    constants = [(name, note) for name, note in given if name in GpuSpec.__annotations__]
    named = {"key", "name", "compute", "tested"}
    assert [name for name, note in constants if not note and name not in named] == []
    assert len(constants) > 60


@pytest.mark.parametrize("gpu", SPECS.values(), ids=lambda gpu: gpu.key)
def test_the_peak_is_lanes_times_clock(gpu: GpuSpec) -> None:
    """Two independent columns of a data sheet."""
    lanes = gpu.sms * gpu.fp32_lanes * 2 * gpu.sm_clock_hz
    assert lanes == pytest.approx(gpu.fp32_flops, rel=0.01)


@pytest.mark.parametrize("gpu", SPECS.values(), ids=lambda gpu: gpu.key)
def test_caches_are_faster_than_memory_and_blocks_smaller_than_an_sm(gpu: GpuSpec) -> None:
    assert gpu.l2_bytes_per_s > gpu.dram_bytes_per_s
    assert gpu.l2_latency_cycles < gpu.dram_latency_cycles
    assert gpu.shared_per_block_optin + gpu.shared_reserved_per_block == gpu.shared_per_sm
    assert gpu.threads_per_sm % 32 == 0 and gpu.threads_per_sm <= 64 * gpu.blocks_per_sm


@pytest.mark.parametrize("gpu", SPECS.values(), ids=lambda gpu: gpu.key)
def test_a_gpu_is_found_by_the_name_its_driver_gives(gpu: GpuSpec) -> None:
    assert spec_for_device_name(gpu.name) == gpu.key


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA H100 PCIe",
        "NVIDIA H100 NVL",
        "NVIDIA GH200 480GB",
        "NVIDIA A100-SXM4-40GB",
        "NVIDIA A100-PCIE-40GB",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GB200",
        "NVIDIA GeForce RTX 5090 D",
        "Tesla T4",
        "",
    ],
)
def test_other_chips_of_a_like_name_have_no_constants(name: str) -> None:
    assert spec_for_device_name(name) is None


@pytest.mark.second_tier
def test_no_other_file_names_an_architecture() -> None:
    """Else a new GPU would have to be named in many places. PTX written by hand names the oldest
    that it runs on."""
    named = re.compile(r"(?<!\.target )\b(?:sm|compute)_\d")
    offenders = []
    for path in sorted(
        [
            *ROOT.glob("tools/**/*.py"),
            *ROOT.glob("agents/**/*.py"),
            *ROOT.glob("astra_chat/[!aths]*/**/*.py"),
            *ROOT.glob("astra_chat/s[!g]*/*.py"),
        ]
    ):
        if "tests" in path.relative_to(ROOT).parts:
            continue
        tree = ast.parse(path.read_text())
        prose = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}  # docstrings
        texts = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in prose]
        offenders += [
            f"{path.relative_to(ROOT)}:{node.lineno}"
            for node in texts
            if named.search(str(node.value))
        ]
    assert offenders == []
