"""A launcher called where floating-point operations round otherwise: it launches the same.

A launcher may compute a number for its kernel, such as 1 / d: then that parameter differs in its
last bits, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from astra_chat.tools.plan import report
from astra_chat.tools.plan.model import KernelNode, Node
from astra_chat.tools.plan.relocate import (
    Ranges,
    Seen,
    Unrepeatable,
    bytes_of,
    parameter_name,
)
from astra_vgpu.ground.cubin import Cubin

ROUNDED = (
    "depends on the host's rounding mode, which a caller may have changed; only the last bits of a"
    " floating-point parameter may depend on it"
)


@dataclass(frozen=True)
class _Format:
    """A floating-point number among parameter bytes, compared as the integer of the same bytes."""

    size: int
    least: int
    """A smaller integer is a count, which rounding may not change. Of 32 and 64 bits the least
    normal number; of 16 bits more, 0.008 of float16: halves of counts lie below."""
    steps: int
    """Largest difference of the integers by which a chain of host operations may move a number."""


COUNTS = 1 << 16
"""Below this the low half of a float64 may be an integer of its own."""
_FORMATS = {
    4: _Format(4, 1 << 23, 64),
    8: _Format(8, 1 << 52, 64),
    2: _Format(2, 1 << 13, 2),
}
"""Formats by size in bytes, in the order in which they are tried: float32, float64, bfloat16 and
float16."""


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
            free = bytes_of((*node.undefined, *unread.get(node.kernel, ())))
            sizes = {p.offset: p.bytes for p in cubin.kernels[node.kernel].parameters}
            at = _differing(one.parameters, other.parameters, free, sizes)
            if at is not None:
                raise Unrepeatable(f"{parameter_name(cubin, node.kernel, at)} {ROUNDED}")


def _differing(mine: bytes, its: bytes, free: set[int], sizes: Mapping[int, int]) -> int | None:
    """The first byte that differs by more than rounding; None: there is none. `sizes`: bytes of the
    parameters, by where they begin."""
    done = 0
    for at, (one, other) in enumerate(zip(mine, its, strict=True)):
        if at < done or one == other or at in free:
            continue
        number = next((n for n in _numbers(at, sizes) if _is_near(mine, its, *n)), None)
        if number is None:
            return at
        done = number[0] + number[1].size
    return None


def _numbers(at: int, sizes: Mapping[int, int]) -> Iterable[tuple[int, _Format]]:
    """The numbers that this byte may belong to: a parameter of 2 or 4 bytes itself; a larger one
    may be a struct of several."""
    start = max((begin for begin in sizes if begin <= at), default=0)
    size = sizes.get(start, 0)
    if size in (2, 4) and at < start + size:
        yield start, _FORMATS[size]
        return
    for number in _FORMATS.values():
        yield at // number.size * number.size, number


def _is_near(mine: bytes, its: bytes, start: int, number: _Format) -> bool:
    """Whether both are normal numbers of the same sign, a few steps apart. A count before a float32
    is no part of a float64."""
    end = start + number.size
    if end > len(mine):
        return False
    one, other = (int.from_bytes(p[start:end], "little", signed=True) for p in (mine, its))
    magnitude, low = (1 << 8 * number.size - 1) - 1, 0xFFFF_FFFF
    if number.size == 8 and min(one & low, other & low) < COUNTS:
        return False
    least = min(one & magnitude, other & magnitude)
    near = least >= number.least and abs(one - other) <= number.steps
    return bool((one < 0) == (other < 0) and near)
