"""Compares results of kernels on the device: a candidate's beside the baseline's.

A filter, no verdict: both kernels may be as far from the oracle as the task tolerates, in opposite
directions, so what differs by less than twice the tolerance passes, and the rest is for the oracle.
Results that are judged in other ways than by a tolerance pass where they equal the baseline's byte
for byte.
Nothing here waits for the device, so many comparisons cost one wait.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

from astra_chat.tools.task.buffer_layout import buffer_bytes, gaps
from astra_chat.tools.task.folder import Arg, Task, Tolerance
from astra_chat.tools.types import ITEM_BYTES, Case

WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers that are as long as an element, by bytes: few operations know 8-bit floats."""
PIECE = 2**24
"""Elements that are compared at a time: half a gigabyte of intermediate values at most."""


def elements(arg: Arg, case: Case, buffers: torch.Tensor) -> torch.Tensor:
    """The elements of an argument, [sets, rows, columns] of its dtype, without padding.

    `buffers`: bytes, [sets, bytes], each set's buffer at the start of its row.
    """
    shape, count = arg.shape_of(case), len(buffers)
    dtype = arg.dtype_of(case)
    used = buffers[:, : buffer_bytes(arg, case)].view(WORDS[ITEM_BYTES[dtype]])
    strides = (used.stride(0), *arg.strides_of(case))
    view = used.as_strided((count, *shape), strides, used.storage_offset())
    return view.reshape(count, math.prod(shape[:-1]), shape[-1]).view(getattr(torch, dtype))


def outside(arg: Arg, case: Case, buffers: torch.Tensor) -> Iterator[torch.Tensor]:
    """The bytes that no launch may change: all of an argument that may only be read, else what lies
    between the elements and what follows the buffer."""
    if arg.constant:
        yield buffers
        return
    yield buffers[:, buffer_bytes(arg, case) :]
    for gap in gaps(arg, case):
        yield buffers.as_strided(
            (len(buffers), *gap.extents, gap.width), (buffers.stride(0), *gap.strides, 1),
            buffers.storage_offset() + gap.offset,
        )  # fmt: skip


def differs(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Whether any byte differs: a boolean of shape (), on the device. Both: bytes, [sets, ...]."""
    differ = torch.zeros((), dtype=torch.bool, device=left.device)
    step = max(1, PIECE // max(1, math.prod(left.shape[1:])))
    for start in range(0, len(left), step):
        part = slice(start, start + step)
        differ |= (_words(left[part]) != _words(right[part])).any()
    return differ


def _words(values: torch.Tensor) -> torch.Tensor:
    whole = values.is_contiguous() and not (values.shape[-1] % 8 or values.storage_offset() % 8)
    return values.view(torch.int64) if whole else values


def unequal(
    got: torch.Tensor, beside: torch.Tensor, which: Sequence[int] | None = None
) -> torch.Tensor:
    """Of each set infinity where any byte differs, else 0: float32 [sets] on the device. Arguments
    as those of `worst_shares`."""
    step = max(1, PIECE // max(1, math.prod(got.shape[1:])))
    places = None if which is None else torch.tensor(which, device=got.device)
    left, right = _bytes(got), _bytes(beside)
    found = torch.zeros(len(got), device=got.device)
    for start in range(0, len(got), step):
        part = slice(start, start + step)
        others = right[part] if places is None else right[places[part]]
        found[part].masked_fill_((left[part] != others).flatten(1).any(dim=1), math.inf)
    return found


def _bytes(values: torch.Tensor) -> torch.Tensor:
    whole = values if values.stride(-1) == 1 else values.contiguous()
    return whole.view(torch.uint8)


def shares_of(
    task: Task,
    arg: Arg,
    case: Case,
    got: torch.Tensor,
    beside: torch.Tensor,
    which: Sequence[int] | None = None,
) -> torch.Tensor:
    """Of each set how far an argument's results are apart, by its kind of comparison; above 1 is
    for the oracle. Arguments as those of `worst_shares`."""
    if arg.judged_by(case) == "close":
        return worst_shares(got, beside, task.tolerance_of(arg, case), which)
    return unequal(got, beside, which)


def worst_shares(
    got: torch.Tensor,
    beside: torch.Tensor,
    tolerance: Tolerance,
    which: Sequence[int] | None = None,
) -> torch.Tensor:
    """Of each set, the largest |got - beside| over twice the tolerance; above 1 is for the oracle.

    `got`: [sets, rows, columns]; `beside`: the same, or with `which` the sets at these places of
    it. Returns float32 [sets] on the device; infinite where NaN or infinity is in one result only.
    """
    rows, columns = got.shape[1:]
    some_sets, some_rows = max(1, PIECE // max(1, rows * columns)), max(1, PIECE // max(1, columns))
    places = None if which is None else torch.tensor(which, device=got.device)
    worst = torch.zeros(len(got), device=got.device)
    for start in range(0, len(got), some_sets):
        part = slice(start, start + some_sets)
        others = beside[part] if places is None else _at(beside, places[part])
        for row in range(0, rows, some_rows):
            piece = slice(row, row + some_rows)
            shares = _shares(got[part, piece], others[:, piece], tolerance)
            torch.maximum(worst[part], shares.amax(dim=(1, 2)), out=worst[part])
    return worst


def _at(values: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return values.view(WORDS[values.element_size()])[places].view(values.dtype)


def _shares(got: torch.Tensor, beside: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    wide = torch.float32 if got.dtype.is_floating_point else torch.float64
    got, beside = got.to(wide), beside.to(wide)
    same = (got == beside) | (got.isnan() & beside.isnan())
    allowed = beside.abs().mul_(2 * tolerance.rtol).add_(2 * tolerance.atol)
    shares = (got - beside).abs_().div_(allowed).nan_to_num_(nan=math.inf, posinf=math.inf)
    return shares.masked_fill_(same, 0.0).float()
