"""Contracts are judged on the virtual GPU everywhere, and on a real one under `-m gpu`."""

from __future__ import annotations

import pytest

from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.types import Device


@pytest.fixture(params=["virtual", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Device:
    return pick_device(request.param)
