"""Cases in which exact results lie in the middle of two values of their dtype.

Products of large 16-bit numbers do where an activation has reached its end, as SiLU and GELU have:
one in 200 of bfloat16, one in 1,000 of float16. Cases that are drawn for other ends are too small
to have enough of them (ties.py).
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from astra_chat.tools.check.drawn_dims import at_even_distances
from astra_chat.tools.check.drawn_large import drawn_seed
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import ITEM_BYTES, Case, DTypeName, is_float

LEAST_BYTES = 2**19
"""Budget of such a case, in bytes."""
SIZES_APART = 2.0
"""Octaves between the sizes of which the one with the most results is taken."""
CASES = {"float16": 3, "bfloat16": 2}
"""Cases of a dtype, as one has too few ties."""


def tied(task: Task, rng: random.Random) -> Iterator[Case]:
    """Cases of large numbers for each 16-bit dtype that a result has."""
    met = set[DTypeName]()
    for kind in task.combinations:
        sizes = at_even_distances(task, kind, rng, LEAST_BYTES, SIZES_APART)
        cases = [kind.case(dims).model_copy(update={"values": "large"}) for dims in sizes]
        if not cases:
            continue
        most = max(cases, key=task.least_results)
        written = (arg.dtype_of(most) for arg in task.args if arg.written)
        narrow = {dtype for dtype in written if is_float(dtype) and ITEM_BYTES[dtype] == 2}
        for dtype in sorted(narrow - met):
            met.add(dtype)
            for _ in range(CASES.get(dtype, 1)):
                yield most.model_copy(update={"seed": drawn_seed(rng)})
