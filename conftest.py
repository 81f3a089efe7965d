"""Tests marked gpu are skipped where there is no GPU; the head of a run says what it has.

The suite runs under fixed entropy, so that a failure can be repeated: the judge draws from one root
(ASTRA_SEED, which the programs that tests start inherit), hypothesis draws the same examples each
time. To search instead: `ASTRA_SEED=$(openssl rand -hex 16)` and `--hypothesis-profile=search`.
"""

from __future__ import annotations

import os
from importlib.metadata import version

import pynvml
import pytest
from hypothesis import HealthCheck, settings

from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.toolkit import host_tool_versions
from tests.tiers import chosen, longest_first

os.environ.setdefault("ASTRA_SEED", "a57a")
settings.register_profile(
    "fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # a busy machine draws slowly
settings.register_profile("search")
settings.load_profile("fixed")


def gpu_names() -> list[str]:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    return [str(pynvml.nvmlDeviceGetName(handle)) for handle in handles]


def pytest_report_header() -> list[str]:
    try:
        tools = ", ".join(f"{name} {said}" for name, said in host_tool_versions().items())
    except MissingDependency as lack:
        tools = str(lack)
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "apache-tvm-ffi"))
    return [f"astra: {tools}, {packages}; GPUs: {', '.join(gpu_names()) or 'none'}"]


def pytest_addoption(parser: pytest.Parser) -> None:
    tiers = ["first", "second", "both"]
    parser.addoption("--tier", choices=tiers, help="Only these tests (tests/tiers.py).")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if tier := config.getoption("tier"):
        kept = chosen(items, tier)
        left_out = set(items) - set(kept)
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = longest_first(kept)
    if gpu_names():
        return
    skip = pytest.mark.skip(reason="no GPU here")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(skip)
