"""Two variants of a source in one file: what it says, that it builds, and what is not merged."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.policy.source_guard import guard
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.tuning.by_shape import merged

TASK = find_task("silu_and_mul")
TUNABLE = (Path(__file__).parent / "tunable.cu").read_text()
WITH_MACRO = TUNABLE.replace("constexpr int kElements = 1;", "#define kElements 1")
SHIPPED = TASK.folder / "script" / "fitted.cu"


@pytest.mark.parametrize("source", [WITH_MACRO, SHIPPED.read_text()], ids=["macro", "shipped"])
def test_two_variants_pass_the_guard_and_build(source: str) -> None:
    """The shipped kernel has a device function of the launcher's name."""
    other = source.replace("kElements 1", "kElements 4").replace("Block = 128", "Block = 64")
    assert other != source
    both = merged(TASK, source, other, "tokens * d <= 65536")
    assert both is not None and "tune:" not in both and "require:" not in both
    assert both.count('extern "C"') == 1 and both.count("#include <cstdint>") == 1
    assert not guard(both, TASK.entry)
    assert isinstance(build(TASK, both, pick_device("virtual")), Build)


def test_other_functions_of_c_linkage_are_not_merged() -> None:
    block = TUNABLE.replace('extern "C" cudaError_t', 'extern "C" {\ncudaError_t') + "}\n"
    assert merged(TASK, block, block, "d <= 1") is None
    two = TUNABLE + 'extern "C" int other() { return 1; }\n'
    assert merged(TASK, two, two, "d <= 1") is None
