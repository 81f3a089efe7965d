"""A build as it is shipped: NVIDIA's runtime is in it, and the fake one is not."""

from __future__ import annotations

import ctypes

from astra_chat.tools.build.hosted import hosted_library
from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.virtual_gpu.adapter import LIBRARY

TASK = find_task("silu_and_mul")


def test_the_launcher_is_linked_with_nvidias_runtime_once() -> None:
    built = build(TASK, TASK.baseline, virtual_device("h200"))
    assert isinstance(built, Build)
    path = hosted_library(built)
    assert LIBRARY.encode() in built.library.read_bytes()
    assert LIBRARY.encode() not in path.read_bytes()
    assert hasattr(ctypes.CDLL(str(path)), TASK.entry)
    stamp = path.stat().st_mtime_ns
    assert hosted_library(built).stat().st_mtime_ns == stamp, "from the cache"
