"""The fixtures of the NumPy engine's tests, for both engines."""

from __future__ import annotations

from typing import Any

import pytest
from tests.c_engine.both import bench as both_engines

from astra_vgpu.ground.toolkit import Toolkit


@pytest.fixture(scope="session")
def aligned() -> Any:
    return both_engines.at_256


@pytest.fixture(scope="session")
def compiled(toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return both_engines.Compiler(toolkit, tmp_path_factory.mktemp("ptx"))


@pytest.fixture(scope="session")
def operate() -> Any:
    return both_engines.Operate()
