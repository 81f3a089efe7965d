"""Devices by name, on a machine with or without a GPU."""

from __future__ import annotations

import pytest

from astra_chat.tools.system.devices import cuda_device, gpu_uuid, pick_device, visible
from astra_chat.tools.system.subprocesses import child_environment
from astra_vgpu.ground.errors import BadInput, MissingDependency


def test_virtual_estimates_for_a_named_gpu() -> None:
    device = pick_device("virtual", "h100")
    assert device.kind == "virtual" and device.spec == "h100" and "H100" in device.name
    assert pick_device("virtual").spec == "h200"


@pytest.mark.parametrize("word", ["gpu", "cuda:x", "virtual:1", ""])
def test_another_word_is_refused(word: str) -> None:
    with pytest.raises(BadInput, match="use auto, cuda, cuda:N or virtual"):
        pick_device(word)


def test_an_unknown_gpu_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match="h200"):
        pick_device("virtual", "riva128")


def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(MissingDependency, match="--device virtual"):
        cuda_device(99)


UUIDS = ("GPU-aa11", "GPU-aa22", "GPU-bb33")


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("0,1,2", [0, 1, 2]),
        ("2, 0", [2, 0]),
        ("GPU-bb", [2]),
        ("GPU-bb33,0", [2, 0]),
        ("GPU-aa", []),
        ("", []),
        ("1,-1,2", [1]),
        ("1,7,2", [1]),
        ("MIG-aa11", []),
    ],
)
def test_gpus_are_counted_as_cuda_counts_them(named: str, found: list[int]) -> None:
    """Else clocks, name and lease would be those of another GPU than the one that works."""
    assert visible(named, UUIDS) == found


def test_children_count_as_nvml_does() -> None:
    assert child_environment()["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


@pytest.mark.gpu
def test_a_gpu_that_is_hidden_from_cuda_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    uuid = gpu_uuid(0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid[:12])
    assert gpu_uuid(0) == uuid and pick_device("auto").kind == "cuda"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert pick_device("auto").kind == "virtual"
    with pytest.raises(MissingDependency, match=r"shows 0 GPU.* with CUDA_VISIBLE_DEVICES=''"):
        cuda_device(0)


@pytest.mark.gpu
def test_auto_takes_the_real_gpu() -> None:
    device = pick_device("auto")
    assert device.kind == "cuda" and device.arch.startswith("sm_")


@pytest.mark.parametrize(("gpu", "arch"), [("h200", "sm_90"), ("a100", "sm_80"), ("l40s", "sm_89")])
def test_the_virtual_gpu_builds_for_the_gpu_that_it_estimates(gpu: str, arch: str) -> None:
    assert pick_device("virtual", gpu).arch == arch
