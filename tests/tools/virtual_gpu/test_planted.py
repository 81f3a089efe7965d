"""Planted bugs: each is found, as what it is, at its line, on both engines."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from astra_chat.tools.virtual_gpu.types import Fault
from tests.tools.virtual_gpu.c_engine.both import bench as both

FOLDER = Path(__file__).parent / "planted"
KINDS: dict[str, str] = tomllib.loads((FOLDER / "planted.toml").read_text())
FILES = ("planted.cu", "mbarriers.cu")
THREADS, ITEMS = 128, 200


@pytest.fixture(scope="module")
def benches(toolkit: Any, tmp_path_factory: Any) -> Any:
    compiler = both.Compiler(toolkit, tmp_path_factory.mktemp("planted"))
    return [compiler(str(FOLDER / file)) for file in FILES]


def test_every_kernel_has_a_kind_and_there_are_many(benches: Any) -> None:
    kernels = [name for bench in benches for name in bench.module.kernels]
    assert sorted(kernels) == sorted(KINDS) and len(KINDS) >= 25


@pytest.mark.parametrize("name", KINDS)
def test_a_planted_bug_is_found_at_its_line(benches: Any, name: str) -> None:
    ((file, bench),) = (
        pair for pair in zip(FILES, benches, strict=True) if name in pair[1].module.kernels
    )
    lines = (FOLDER / file).read_text().splitlines()
    (line,) = (n for n, text in enumerate(lines, 1) if text.endswith(f"// BUG {name}"))
    out = both.at_256(np.zeros(ITEMS, np.float32))
    in_ = both.at_256(np.arange(1, ITEMS + 1, dtype=np.float32))
    grid = 2 if KINDS[name] == "out_of_bounds" else 1
    options = {"instruction_budget": 1 << 24} if KINDS[name] == "timeout" else {}
    with pytest.raises(Fault) as caught:
        bench.launch(name, grid, THREADS, out, in_, np.int32(ITEMS), **options)
    assert caught.value.kind == KINDS[name], str(caught.value)
    assert f"{file}:{line}," in caught.value.where, str(caught.value)
    assert f"kernel {name}," in caught.value.where and "thread (" in caught.value.where
