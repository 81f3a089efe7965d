"""prefetch and eviction policies: they concern speed only."""

from __future__ import annotations

import numpy as np

from astra_vgpu.numpy_engine.code import Code, Step, family


@family("createpolicy")
def createpolicy(code: Code) -> Step:
    """An eviction policy, for the hints of loads and stores: it concerns speed only."""
    code.option("fractional", "range", "cvt")
    code.ignore("global", "L2")
    code.ignore_hints()
    code.type("b64")
    write = code.write(0, "b64")
    return lambda f: write(f, np.zeros((1, 1), np.uint64))


@family("prefetch")
@family("prefetchu")
@family("applypriority")
def prefetch(code: Code) -> Step:
    code.ignore("global", "local", "L1", "L2")
    code.ignore_hints()
    return lambda f: None
