"""Atomics whose scope is the block: the C engine leaves them to this one."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numpy_engine.conftest import Bench
from tests.numpy_engine.test_block_races import HEAD

from astra_vgpu.ptx.parser import parse
from astra_vgpu.types import Fault


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("red.cta.global.add.u32 [%d0], 1;", True),
        ("red.cta.global.add.u32 [%d3], 1;", False),
        ("@%p0 red.cta.global.add.u32 [%d0], 1; @%p1 red.gpu.global.add.u32 [%d0], 1;", True),
    ],
)
def test_no_atomics_to_other_blocks(body: str, expected: bool) -> None:
    bench = Bench(parse(f"{HEAD}{body} ret; }}"))
    out, given = np.full(1024, 77, np.uint32), np.ones(1024, np.uint32)
    try:
        bench.launch("kernel", 4, 64, out, given, counters=False)
    except Fault as fault:
        assert fault.kind == "race"
        assert expected, str(fault)
        return
    assert not expected
