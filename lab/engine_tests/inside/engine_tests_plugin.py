"""A pytest plugin: every test runs twice, on equal random numbers, with a package's winners and
without. It needs torch, the package and SGLang, and nothing of Astra.

The environment names this process's share of the tests, its file of results and when to stop. A
line of results is a test; the last one has the counts of calls.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import types
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

WITH, WITHOUT = "astra-with", "astra-without"
PLACES = {
    "sglang.jit_kernel.activation": "sglang.kernels.ops.activation.activation",
    "sglang.jit_kernel.utils": "sglang.kernels.jit.utils",
    "sglang.jit_kernel.norm": "sglang.kernels.ops.layernorm.norm",
    "sglang.jit_kernel.rope": "sglang.kernels.ops.attention.rope",
    "sglang.jit_kernel.moe_align": "sglang.kernels.ops.moe",
}
"""Where a later SGLang has what the tests import."""
LAYERS = {"sglang.jit_kernel.norm": ("rmsnorm", "fused_add_rmsnorm")}
"""Functions that SGLang's layers call by sgl_kernel: hooks are set there."""
POISONED = 77
"""Exit code after a fault of the GPU, behind which no test of this process means anything."""
FAULTS = ("CUDA error", "AcceleratorError", "device-side assert")


class _Shard:
    def __init__(self) -> None:
        number, _, count = os.environ["ASTRA_TESTS_SHARD"].partition("/")
        self._number, self._count = int(number), int(count)
        self.path = Path(os.environ["ASTRA_TESTS_RESULTS"])
        self.last = float(os.environ["ASTRA_TESTS_UNTIL"])
        text = self.path.read_text() if self.path.exists() else ""
        found = [json.loads(line) for line in text.splitlines()]
        self.done = {(one["test"], one["variant"]) for one in found if "test" in one}

    def wants(self, item: pytest.Item) -> bool:
        name, variant = named(item.nodeid)
        mine = zlib.crc32(name.encode()) % self._count == self._number
        return mine and (name, variant) not in self.done

    def write(self, line: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


SHARD = _Shard()


def named(nodeid: str) -> tuple[str, str]:
    """A test and its variant."""
    variant = "without" if WITHOUT in nodeid else "with"
    path, _, name = nodeid.partition("::")
    bare = name.replace(WITHOUT, "").replace(WITH, "").replace("[-", "[").replace("-]", "]")
    return f"{Path(path).name}::{bare}", variant


def pytest_configure() -> None:
    from sglang.srt.plugins import load_plugins

    load_plugins()
    from astra_winners.operators import PACKAGED

    for made in PACKAGED["operators"].values():  # slower is not wrong: they take what they can
        made["rows"], made["steps"] = {}, {}
    for name, place in PLACES.items():
        sys.modules[name] = _as_before(name, importlib.import_module(place))
    if torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(float(os.environ["ASTRA_TESTS_MEMORY"]))


def _as_before(name: str, module: types.ModuleType) -> types.ModuleType:
    """The module under its former name, with the functions that hooks replace."""
    found = types.ModuleType(name)
    found.__dict__.update({k: v for k, v in vars(module).items() if not k.startswith("__")})
    layers = importlib.import_module("sgl_kernel")
    found.__dict__.update({one: getattr(layers, one) for one in LAYERS.get(name, ())})
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = sorted(filter(SHARD.wants, items), key=lambda one: zlib.crc32(_key(one)))


def _key(item: pytest.Item) -> bytes:
    return named(item.nodeid)[0].encode()


@pytest.fixture(autouse=True, params=["with", "without"], ids=[WITH, WITHOUT])
def winners(request: pytest.FixtureRequest) -> Iterator[None]:
    """Winners take calls, or none does."""
    from astra_winners import operators

    operators.switch(list(operators.OPERATORS) if request.param == "with" else [])
    torch.manual_seed(zlib.crc32(_key(request.node)))
    yield
    operators.switch([])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = _took()
    reports: list[Any] = []
    item.stash[_REPORTS] = reports
    result = yield
    name, variant = named(item.nodeid)
    bad = next((one for one in reports if one.outcome != "passed"), None)
    why = "" if bad is None else _why(bad)
    line = {"test": name, "variant": variant, "outcome": bad.outcome if bad else "passed"}
    SHARD.write({**line, "why": why, "took": _took() - before})
    if any(fault in why for fault in FAULTS):
        pytest.exit(why, returncode=POISONED)
    if time.time() > SHARD.last:
        item.session.shouldstop = "the time limit was reached"
    return result


_REPORTS = pytest.StashKey[list[Any]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    item.stash[_REPORTS].append(report)
    return report


def _why(report: Any) -> str:
    """The reason of a skip or a failure, on one line."""
    if report.skipped:
        return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr)
    return " ".join(text.split())[:400]


def _took() -> int:
    from astra_winners.counting import COUNTERS, TOOK

    return sum(n for (_, what, _), n in COUNTERS.totals().items() if what == TOOK)


def pytest_sessionfinish() -> None:
    from astra_winners.counting import COUNTERS

    SHARD.write({"counts": [[*key, n] for key, n in COUNTERS.totals().items()]})
