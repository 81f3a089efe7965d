"""Devices for tests that run kernels: the virtual GPU everywhere, a real one under `-m gpu`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from astra_chat.tools.run.oracle import Oracle
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


@pytest.fixture(scope="module")
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    """The oracle of a test file's TASK."""
    made = Oracle(request.module.TASK)
    yield made
    made.close()
