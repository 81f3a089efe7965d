"""Devices by name, on a machine with or without a GPU."""

from __future__ import annotations

import pytest

from astra_chat.tools.devices import cuda_device, pick_device
from astra_chat.tools.errors import BadInput, EnvironmentLack


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
    with pytest.raises(EnvironmentLack, match="--device virtual"):
        cuda_device(99)


@pytest.mark.gpu
def test_auto_takes_the_real_gpu() -> None:
    device = pick_device("auto")
    assert device.kind == "cuda" and device.arch.startswith("sm_")
