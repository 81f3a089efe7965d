"""Arrays that are freed and made again: whether the kernel must clear their pages again."""

from __future__ import annotations

import subprocess
import sys

FAULTS = """
import resource, sys
import numpy as np
from astra_vgpu.ground.freed_memory import keep_freed_memory
if sys.argv[1:]:
    keep_freed_memory()
np.ones(2**26, np.uint8)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(8):
    np.ones(2**26, np.uint8)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(*options: str) -> int:
    argv = [sys.executable, "-c", FAULTS, *options]
    return int(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)


def test_a_freed_array_s_pages_serve_the_next_one() -> None:
    assert faults("kept") < 64 < faults()
