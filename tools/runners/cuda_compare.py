"""Compares results of kernels on the device: a candidate's beside the baseline's.

A filter, no verdict: both kernels may be as far from the oracle as the task tolerates, in opposite
directions, so what differs by less than twice the tolerance passes, and the rest is for the oracle;
so is a result of 16 bits some of whose columns differ far more often than others.
Codes of 8 bits pass where none is more than a step beside the baseline's, and no more are than the
task lets be beside the nearest. Results that are judged in other ways pass where they equal the
baseline's byte for byte.
Nothing here waits for the device, so many comparisons cost one wait.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from astra_chat.tools.check.floats import as_float, steps
from astra_chat.tools.check.kinds import most_off
from astra_chat.tools.task.buffer_layout import buffer_bytes, gaps
from astra_chat.tools.task.folder import Arg, Task, Tolerance
from astra_chat.tools.types import ITEM_BYTES, Case, DTypeName

WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers that are as long as an element, by bytes: few operations know 8-bit floats."""
FAR = 2**14
"""Steps from a code that is no number to any that is one."""
COLUMNS = 64
"""Remainders of columns that are kept separate."""
FEW_APART, SHARE_APART = 8, 0.05
"""Elements in the columns of one remainder, as a number and as a share, that may differ from the
baseline's whatever the others do."""
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


def element_bytes(arg: Arg, case: Case, buffers: torch.Tensor) -> torch.Tensor:
    """A view of the bytes of an argument's elements, [sets, *shape, item]; `buffers`: as that of
    `elements`, or one byte's worth of anything for each byte."""
    item = ITEM_BYTES[arg.dtype_of(case)]
    strides = (buffers.stride(0), *(stride * item for stride in arg.strides_of(case)), 1)
    shape = (len(buffers), *arg.shape_of(case), item)
    return buffers.as_strided(shape, strides, buffers.storage_offset())


def outside(arg: Arg, case: Case, buffers: torch.Tensor) -> Iterator[torch.Tensor]:
    """The bytes that no launch may change: all of an argument that may only be read, else what lies
    between the elements and what follows the buffer."""
    if arg.constant:
        yield buffers
        return
    yield buffers[:, buffer_bytes(arg, case) :]
    for gap in gaps(arg, case):
        yield buffers.as_strided(
            (len(buffers), *gap.extents, gap.width),
            (buffers.stride(0), *gap.strides, 1),
            buffers.storage_offset() + gap.offset,
        )


def differs(
    left: torch.Tensor, right: torch.Tensor, where: torch.Tensor | None = None
) -> torch.Tensor:
    """Whether any byte differs: a boolean of shape (), on the device. Both: bytes, [sets, ...];
    `where`: boolean [...], the bytes that are looked at."""
    differ = torch.zeros((), dtype=torch.bool, device=left.device)
    step = max(1, PIECE // max(1, math.prod(left.shape[1:])))
    for start in range(0, len(left), step):
        part = slice(start, start + step)
        if where is None:
            differ |= (_words(left[part]) != _words(right[part])).any()
        else:
            differ |= ((left[part] != right[part]) & where).any()
    return differ


def _words(values: torch.Tensor) -> torch.Tensor:
    whole = values.is_contiguous() and not (values.shape[-1] % 8 or values.storage_offset() % 8)
    return values.view(torch.int64) if whole else values


def unequal(
    got: torch.Tensor, beside: torch.Tensor, which: Sequence[int] | None = None
) -> torch.Tensor:
    """Returns infinity for each set in which any byte differs, else 0: float32 [sets] on the
    device. Arguments as those of `worst_shares`."""
    found = torch.zeros(len(got), device=got.device)
    for part, left, right in _in_parts(got, beside, which):
        found[part].masked_fill_((left != right).flatten(1).any(dim=1), math.inf)
    return found


def codes_apart(
    got: torch.Tensor,
    beside: torch.Tensor,
    dtype: DTypeName,
    share: float,
    which: Sequence[int] | None = None,
) -> torch.Tensor:
    """Returns for each set how many codes are a step apart over how many may be, by the task's
    `share`; infinity where one is further apart. float32 [sets] on the device; other arguments as
    those of `worst_shares`, of a dtype of 8 bits."""
    values = as_float(np.arange(2**8, dtype=np.uint8), dtype)
    steps_of = np.where(np.isnan(values), FAR, steps(np.nan_to_num(values), dtype))
    places = torch.tensor(steps_of, dtype=torch.int16, device=got.device)
    most = most_off(share, math.prod(got.shape[1:]))
    found = torch.zeros(len(got), device=got.device)
    for part, left, right in _in_parts(got, beside, which):
        apart = (places[left.long()] - places[right.long()]).abs_().flatten(1)
        found[part] = (apart == 1).sum(dim=1) / max(most, 1e-30)
        found[part].masked_fill_((apart > 1).any(dim=1), math.inf)
    return found


def _in_parts(
    got: torch.Tensor, beside: torch.Tensor, which: Sequence[int] | None
) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor]]:
    """Bytes of as many sets at a time as are compared at a time."""
    step = max(1, PIECE // max(1, math.prod(got.shape[1:])))
    places = None if which is None else torch.tensor(which, device=got.device)
    left, right = _bytes(got), _bytes(beside)
    for start in range(0, len(got), step):
        part = slice(start, start + step)
        yield part, left[part], right[part] if places is None else right[places[part]]


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
    """Returns how far an argument's results are apart in each set, by its kind of comparison:
    float32 [sets] on the device; above 1 is for the oracle. Arguments as those of
    `worst_shares`."""
    if arg.judged_by(case) == "close":
        shares = worst_shares(got, beside, task.tolerance_of(arg, case), which)
        if got.element_size() > 2:
            return shares
        return torch.maximum(shares, columns_apart(got, beside, which))
    if arg.judged_by(case) == "quantized" and arg.judged is not None:
        return codes_apart(got, beside, arg.dtype_of(case), arg.judged.off_by_one, which)
    return unequal(got, beside, which)


def columns_apart(
    got: torch.Tensor, beside: torch.Tensor, which: Sequence[int] | None = None
) -> torch.Tensor:
    """Returns how much more often some columns differ than the others, which rounding has no reason
    for: the largest number of elements that differ in the columns of one remainder modulo COLUMNS,
    over how many may by chance and by how often all do. float32 [sets] on the device; arguments as
    those of `worst_shares`, of 16 bits or less."""
    rows, columns = got.shape[1:]
    found = torch.zeros(len(got), device=got.device)
    short = -columns % COLUMNS
    of_each = torch.ones(columns, device=got.device)
    counts = rows * torch.nn.functional.pad(of_each, (0, short)).view(-1, COLUMNS).sum(dim=0)
    for part, left, right in _in_parts(got, beside, which):
        differ = (left != right).reshape(len(left), rows, columns, -1).any(dim=3).sum(dim=1)
        by_column = torch.nn.functional.pad(differ.float(), (0, short))
        apart = by_column.view(len(differ), -1, COLUMNS).sum(dim=1)
        usual = apart.sum(dim=1, keepdim=True) / max(1, rows * columns)
        most = FEW_APART + (SHARE_APART + 2 * usual) * counts
        found[part] = (apart / most).amax(dim=1)
    return found


def worst_shares(
    got: torch.Tensor,
    beside: torch.Tensor,
    tolerance: Tolerance,
    which: Sequence[int] | None = None,
) -> torch.Tensor:
    """Returns the largest |got - beside| of each set over twice the tolerance; above 1 is for the
    oracle.

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
