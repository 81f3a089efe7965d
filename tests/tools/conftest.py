"""Devices for tests that run kernels: the virtual GPU everywhere, a real one under `-m gpu`."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.types import Device

SCALAR = (Path(__file__).parent / "kernels" / "scalar.cu").read_text()


@pytest.fixture(params=["virtual", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Device:
    return pick_device(request.param)


@pytest.fixture
def scalar() -> str:
    """A correct kernel for silu_and_mul."""
    return SCALAR
