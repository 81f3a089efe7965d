"""Planted bugs: each is found, as what it is, at its line, on both engines; honest kernels pass."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.c_engine.both import bench as both
from tests.c_engine.both import engines

from astra_vgpu.memory.buffers import Memory
from astra_vgpu.types import Fault, LaunchReport

FOLDER = Path(__file__).parent / "planted"
KINDS: dict[str, str] = tomllib.loads((FOLDER / "planted.toml").read_text())
FILES = ("planted.cu", "mbarriers.cu", "orders.cu", "uninitialized.cu", "honest.cu")
THREADS, BLOCKS = 128, 4
ONLY_NUMPY: set[str] = set()
"""Kernels that the C engine refuses: their bugs are found on the other one only."""


@pytest.fixture(scope="module")
def benches(toolkit: Any, tmp_path_factory: Any) -> Any:
    compiler = both.Compiler(toolkit, tmp_path_factory.mktemp("planted"))
    return {file: compiler(str(FOLDER / file)) for file in FILES}


@pytest.mark.second_tier
def test_every_kernel_has_a_kind_and_there_are_many(benches: Any) -> None:
    kernels = [name for file in FILES[:-1] for name in benches[file].module.kernels]
    assert sorted(kernels) == sorted(KINDS) and len(KINDS) >= 25


def test_no_kernel_is_left_out_on_the_c_engine(benches: Any) -> None:
    engines.only_numpy.clear()
    for bench in benches.values():
        for name in bench.module.kernels:
            engines.translate(bench.module, name)
    assert engines.only_numpy == ONLY_NUMPY


def place_of(benches: Any, name: str) -> tuple[Any, str]:
    """The bench that has the kernel, and "file:line" of its bug."""
    (file,) = (f for f in FILES if name in benches[f].module.kernels)
    lines = (FOLDER / file).read_text().splitlines()
    (line,) = (n for n, text in enumerate(lines, 1) if text.endswith(f"// BUG {name}"))
    return benches[file], f"{file}:{line}"


def launch(bench: Any, name: str, grid: int, items: int, **options: Any) -> LaunchReport:
    first = options.pop("first", 0)
    out = both.at_256(np.arange(first, first + items, dtype=np.float32) * bool(first))
    in_ = both.at_256(np.arange(1, items + 1, dtype=np.float32))
    if options.pop("uninitialized", False):
        options["memory"] = Memory()
        options["memory"].track_writes(True)
        options["memory"].add(out, "out", uninitialized=True)
    report: LaunchReport = bench.launch(name, grid, THREADS, out, in_, np.int32(items), **options)
    return report


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", [n for n, kind in KINDS.items() if kind != "uninitialized"])
def test_a_planted_bug_is_found_at_its_line(benches: Any, name: str) -> None:
    bench, place = place_of(benches, name)
    options = {"instruction_budget": 1 << 24} if KINDS[name] == "timeout" else {}
    grid, items = 2 if KINDS[name] == "out_of_bounds" else 1, 200
    if place.startswith("orders.cu"):
        grid, items, options["first"] = BLOCKS, 1024, 200
    with pytest.raises(Fault) as caught:
        launch(bench, name, grid, items, **options)
    assert caught.value.kind == KINDS[name], str(caught.value)
    assert f"{place}," in caught.value.where, str(caught.value)
    assert f"kernel {name}," in caught.value.where and "thread (" in caught.value.where
    if place.startswith("orders.cu"):
        other = caught.value.message.partition("; the other access: ")[2]
        assert other.startswith("orders.cu:") and "thread (" in other, caught.value.message


@pytest.mark.parametrize("name", [n for n, kind in KINDS.items() if kind == "uninitialized"])
def test_what_nobody_wrote_is_told_at_its_line(benches: Any, name: str) -> None:
    bench, place = place_of(benches, name)
    report = launch(bench, name, BLOCKS, 1024, uninitialized=True)
    (found,) = report.uninitialized
    assert found.source == place and " of " in found.place and found.order[0] == 0


HONEST = [
    line.partition("(")[2].rstrip(") {")
    for line in (FOLDER / "honest.cu").read_text().splitlines()
    if line.startswith("KERNEL(")
]


@pytest.mark.parametrize("name", HONEST)
def test_nothing_is_said_of_honest_kernels(benches: Any, name: str) -> None:
    assert launch(benches["honest.cu"], name, BLOCKS, 1024).uninitialized == ()
