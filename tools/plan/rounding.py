"""A launcher called where floating-point operations round otherwise: it launches the same.

A launcher may compute a number for its kernel, such as 1 / d: then that parameter differs in its
last bits, and nothing else does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from astra_chat.tools.plan import report
from astra_chat.tools.plan.model import KernelNode, Node
from astra_chat.tools.plan.relocate import Ranges, Seen, Unrepeatable, parameter_name
from astra_chat.tools.system.cubin import Cubin

ROUNDED = (
    "depends on the host's rounding mode, which a caller may have set; only the last bits of a"
    " floating-point parameter may"
)
LAST_BITS = 8
"""Steps of a floating-point parameter that a chain of host operations may move it by."""
_FORMATS = ((8, "<q", 1 << 52), (4, "<i", 1 << 23), (2, "<h", 1 << 7))
"""Bytes, the integer of the same bytes, and the least of it that is a normal number: float64,
float32, bfloat16. A smaller integer is a count or an extent, which rounding may not change."""


def require_rounded(
    plan: Iterable[Node], usual: Seen, rounded: Seen, cubin: Cubin, unread: Mapping[str, Ranges]
) -> None:
    """Both recordings were made with the same addresses and the same stack. Raises Unrepeatable
    where they differ in more than the last bits of numbers that kernels get."""
    mine, its = usual.called.nodes, rounded.called.nodes
    if len(mine) != len(its):
        raise Unrepeatable(f"the number of launches {ROUNDED}")
    for number, (one, other, node) in enumerate(zip(mine, its, plan, strict=True), start=1):
        if not isinstance(one, report.Kernel) or not isinstance(other, report.Kernel):
            same = one == other
        else:
            same = one.model_copy(update={"parameters": other.parameters}) == other
        if not same:
            raise Unrepeatable(f"launch {number} {ROUNDED}")
        if isinstance(one, report.Kernel) and isinstance(other, report.Kernel):
            assert isinstance(node, KernelNode)
            free = _bytes_of((*node.undefined, *unread.get(node.kernel, ())))
            at = _differing(one.parameters, other.parameters, free)
            if at is not None:
                raise Unrepeatable(f"{parameter_name(cubin, node.kernel, at)} {ROUNDED}")


def _bytes_of(ranges: Iterable[tuple[int, int]]) -> set[int]:
    return {i for start, length in ranges for i in range(start, start + length)}


def _differing(mine: bytes, its: bytes, free: set[int]) -> int | None:
    """The first byte that differs by more than rounding; None: there is none."""
    done = 0
    for at, (one, other) in enumerate(zip(mine, its, strict=True)):
        if at < done or one == other or at in free:
            continue
        end = next((end for end in _words(at) if _is_near(mine, its, *end)), None)
        if end is None:
            return at
        done = end[1]
    return None


def _words(at: int) -> Iterable[tuple[int, int]]:
    for size, _, _ in _FORMATS:
        start = at // size * size
        yield start, start + size


def _is_near(mine: bytes, its: bytes, start: int, end: int) -> bool:
    """Whether both words are normal numbers of the same sign, a few steps apart."""
    size = end - start
    if end > len(mine):
        return False
    form, least = next((f, low) for s, f, low in _FORMATS if s == size)
    one, other = (struct.unpack(form, p[start:end])[0] for p in (mine, its))
    low = (1 << 8 * size - 1) - 1
    sizes = one & low, other & low
    return (one < 0) == (other < 0) and min(sizes) >= least and abs(one - other) <= LAST_BITS
