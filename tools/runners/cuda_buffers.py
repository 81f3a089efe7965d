"""Buffers for timing: one set of arguments a launch, so that no launch finds its data in the L2.

A launch must gain nothing from those before it. So every replay starts from inputs as they were and
poisoned outputs; each set serves one launch of a replay; the sets are taken in an order drawn by
chance, for a kernel could fetch the next one's data; and what lies between them may not change.
Where the data are meant to lie in the L2, its set is restored before each launch of a replay.

Memory: MEMORY_SHARE of what is free, the results that are kept to be compared included.
"""

from __future__ import annotations

import ctypes
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from astra_chat.tools.plan.stand_ins import ALIGNMENT
from astra_chat.tools.run.protocol import CallRequest, TimedMode
from astra_chat.tools.runners.arguments import poison
from astra_chat.tools.runners.cuda_compare import (
    WORDS,
    differs,
    element_bytes,
    outside,
)
from astra_chat.tools.task.block_images import may_change
from astra_chat.tools.task.buffer_layout import Bytes, buffer_bytes, gathered, spread
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.task.placement import layout
from astra_chat.tools.types import ITEM_BYTES, is_float

MIN_SETS, MAX_SETS = 20, 1024
MEMORY_SHARE = 0.4
"""Share of the device's free memory that is taken: by the sets, what they are refilled from, and
results that are kept."""
MODES = 3
"""Modes of timing, each of whose results are kept until all are compared."""
FEW = 4096
"""Elements of a row for each of which it differs in one more from set to set; in one at least."""
PERSISTING_L2_LIMIT = 6
"""The driver's number of the limit on L2 that access policy windows may keep."""


@dataclass(frozen=True)
class Kept:
    """What the candidate's launches of one mode wrote."""

    mode: TimedMode
    sets: tuple[int, ...]
    results: dict[str, torch.Tensor]
    """Bytes of each written argument, by name: [sets, bytes], in the order of `sets`."""


class BufferSets:
    """Copies of a call's arguments, lying as in its case, that together fill the L2 twice, as far
    as MAX_SETS allows.

    No two hold the same inputs. One, at a place drawn at random, holds the case's own; the others
    nearly the same, half of them with rows at other places: an element of each row is another. So a
    kernel gains nothing by reading what lies beside its arguments, nor by what it left in the chip
    for later launches: the result that it finds is another set's, and to notice
    that it has to read a whole row. The results of every set are compared (cuda_timing.py).

    `cool` reads a large buffer last: reading leaves no dirty lines whose write-back would be timed
    with the kernel.
    """

    def __init__(self, task: Task, call: CallRequest, pattern: int, chance: random.Random) -> None:
        self._task, self._call, self._chance, self._pattern = task, call, chance, pattern
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._driver.cuCtxSetLimit(PERSISTING_L2_LIMIT, ctypes.c_size_t(0))
        l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        self._lies = lies = layout(task, call.case)
        self.sizes = [buffer_bytes(arg, call.case) for arg in task.args]
        """Bytes of each argument's buffer."""
        strides = [(block.bytes // ALIGNMENT + 2) * ALIGNMENT for block in lies.blocks]
        self._cooler = torch.zeros(2 * l2_bytes // 4, device="cuda")
        stride_of = [strides[number] for number, _ in lies.places]
        kept = sum(s for s, arg in zip(stride_of, task.args, strict=True) if arg.written)
        shared = any(len(block.members) > 1 for block in lies.blocks)
        each = 2 * sum(strides) + MODES * kept + max(stride_of) * shared
        most = int(MEMORY_SHARE * torch.cuda.mem_get_info()[0] / each)
        wanted = min(MAX_SETS, math.ceil(2 * l2_bytes / self.bytes_each) + 1)
        self.count = max(2, min(most, max(MIN_SETS, wanted)))
        self.order = chance.sample(range(self.count), self.count)
        self.own = chance.randrange(self.count)
        """The set that holds the case's own inputs."""
        self._filled = [
            aligned(self.count * stride)
            .view(torch.int16)
            .fill_(pattern - (pattern >> 15 << 16))
            .view(torch.uint8)
            .view(self.count, stride)
            for stride in strides
        ]
        self._fill(pattern)
        self._digests = self._digested()
        self._tensors = [aligned(f.numel()).view(f.shape) for f in self._filled]
        self._kept: dict[TimedMode, Kept] = {}
        self.touched: set[str] = set()
        """Arguments round which, or in which though they may only be read, something changed."""
        self.refill()
        self.restore(0)  # its kernel is loaded now: not while a graph is recorded

    def addresses(self, which: int) -> list[int]:
        """Returns the addresses of a set's arguments, in the order of the task's args."""
        return [self._tensors[number][which].data_ptr() + at for number, at in self._lies.places]

    def memory(self, which: int, index: int) -> torch.Tensor:
        """The bytes of an argument's buffer in a set; `index`: its place among the task's args."""
        return self._own(self._tensors, index)[which, : self.sizes[index]]

    def refill(self) -> None:
        """Inputs as they were and outputs poisoned, in every set: nothing stale can pass."""
        for tensor, filled in zip(self._tensors, self._filled, strict=True):
            tensor.copy_(filled)

    def cool(self) -> None:
        """Evict all sets from the L2 and give back what was marked as persisting there."""
        self._driver.cuCtxResetPersistingL2Cache()
        self._cooler.sum()

    def restore(self, which: int) -> None:
        """One set as `refill` leaves it. By kernels: copies would be other nodes of a graph."""
        for tensor, filled in zip(self._tensors, self._filled, strict=True):
            _copied(filled[which], tensor[which])

    def keep(self, mode: TimedMode, launched: Sequence[int]) -> None:
        """Keep what launches on these sets just wrote, in place of what was kept of that mode, and
        look for changes where there may be none."""
        self._kept.pop(mode, None)  # its memory is free for what comes
        places = torch.tensor(launched, device="cuda")
        results = {arg.name: _at(now, places) for arg, now in self._results()}
        self._kept[mode] = Kept(mode, tuple(launched), results)
        for number, pair in enumerate(zip(self._tensors, self._filled, strict=True)):
            if self._is_touched(number, *pair):
                self.touched.add(self._name(number))

    def _is_touched(self, number: int, now: torch.Tensor, then: torch.Tensor) -> bool:
        """Whether something changed in a block where nothing may."""
        members = self._lies.blocks[number].members
        if len(members) > 1:
            fixed = torch.ones(now.shape[1], dtype=torch.bool)
            fixed[: self._lies.blocks[number].bytes] = ~torch.from_numpy(
                may_change(self._lies, number)
            )
            return bool(differs(now, then, fixed.to(now.device)))
        arg = self._task.args[members[0]]
        pairs = zip(*(outside(arg, self._call.case, t) for t in (now, then)), strict=True)
        return any(bool(differs(*pair)) for pair in pairs)

    def _name(self, number: int) -> str:
        """Returns the name of a block's first argument."""
        return self._task.args[min(self._lies.blocks[number].members)].name

    @property
    def bytes_each(self) -> int:
        """Bytes of the buffers of one set's arguments."""
        return sum(self.sizes)

    @property
    def kept(self) -> list[Kept]:
        """Results that are kept of each mode."""
        return list(self._kept.values())

    @property
    def results(self) -> dict[str, torch.Tensor]:
        """What the written arguments hold now: bytes, [sets, bytes]."""
        return {arg.name: tensor for arg, tensor in self._results()}

    def _results(self) -> list[tuple[Arg, torch.Tensor]]:
        own = ((arg, self._own(self._tensors, i)) for i, arg in enumerate(self._task.args))
        return [(arg, tensor) for arg, tensor in own if arg.written]

    def _own(self, blocks: Sequence[torch.Tensor], index: int) -> torch.Tensor:
        """Bytes of an argument in every set, with what lies between its elements; of a block of its
        own, with what follows it."""
        number = self._lies.places[index][0]
        whole = len(self._lies.blocks[number].members) == 1
        return blocks[number] if whole else blocks[number][:, self._lies.span(index)]

    def workspace_bytes(self, launched: Sequence[int]) -> int:
        """Bytes of all workspaces up to the last one that launches on these sets changed."""
        used = 0
        for index, arg in enumerate(self._task.args):
            if arg.access == "workspace":
                now, then = (self._own(of, index) for of in (self._tensors, self._filled))
                size, ends = self.sizes[index], [0]
                for which in launched:
                    places = (now[which, :size] != then[which, :size]).nonzero()
                    ends += [int(places[-1]) + 1] if len(places) else []
                used += max(ends)
        return used

    def inputs(self, which: int) -> dict[str, torch.Tensor]:
        """Bytes of each input buffer of a set, padding included."""
        own = enumerate(zip(self._task.args, self.sizes, strict=True))
        return {a.name: self._own(self._filled, i)[which, :n] for i, (a, n) in own if a.read}

    def alone(self, index: int, values: Bytes) -> Bytes:
        """The bytes of an argument's buffer as they would be, did nothing else lie in it; whether
        what is between the elements changed is said by `touched`."""
        arg, case = self._task.args[index], self._call.case
        if not self._lies.blocks[self._lies.places[index][0]].mixed:
            return values
        return spread(arg, case, gathered(arg, case, values)[0], self._pattern)

    def look_at_sources(self) -> None:
        """See that what sets are refilled from is as it was."""
        now = self._digested()
        self.touched |= {name for name, digest in self._digests.items() if digest != now[name]}

    def _digested(self) -> dict[str, int]:
        return {self._name(n): int(_words(filled).sum()) for n, filled in enumerate(self._filled)}

    def wipe(self) -> None:
        """Leave no results in memory that later launches could find."""
        self.refill()
        for kept in self._kept.values():
            for results in kept.results.values():
                results.zero_()
        self._kept.clear()

    def _fill(self, pattern: int) -> None:
        others = [which for which in range(self.count) if which != self.own]
        turns = {which: self._chance.random() for which in others if self._chance.random() < 0.5}
        # Of two arguments at one address the call begins with what is read.
        for index in sorted(range(len(self.sizes)), key=lambda index: self._task.args[index].read):
            number, arg = self._lies.places[index][0], self._task.args[index]
            block, filled = self._lies.blocks[number], self._filled[number]
            by_itself = filled if len(block.members) == 1 else torch.empty_like(filled)
            original = torch.from_numpy(poison(self._task, self._call, index, pattern)).cuda()
            by_itself[:, : len(original)] = original
            if arg.read:
                for which, turn in turns.items():
                    turned_away(arg, self._call, original, turn, by_itself[which])
                estranged(arg, self._call, by_itself, others, self._chance.getrandbits(63))
            if block.mixed:
                pair = (self._own(self._filled, index), by_itself)
                into, source = (element_bytes(arg, self._call.case, t) for t in pair)
                into.copy_(source)
            elif by_itself is not filled:
                self._own(self._filled, index).copy_(by_itself[:, : len(original)])


def aligned(size: int) -> torch.Tensor:
    """So many bytes of the device's memory, at an address with the alignment that plans are
    recorded for."""
    room = torch.empty(size + ALIGNMENT, dtype=torch.uint8, device="cuda")
    start = -room.data_ptr() % ALIGNMENT
    return room[start : start + size]


def _at(sets: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """A copy of some sets' bytes, [places, bytes]."""
    if sets.is_contiguous():
        return _words(sets)[places].view(torch.uint8)
    return sets[places]


def _words(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.int64)


def _copied(source: torch.Tensor, target: torch.Tensor) -> None:
    torch.bitwise_or(_words(source), 0, out=_words(target))


def _movable(arg: Arg, call: CallRequest, *, single: bool) -> bool:
    """Whether its rows, or the elements of a single one, may lie in another order: integers have an
    order and sums that reference.py may rely on, unless their index says that they have not."""
    if is_float(arg.dtype_of(call.case)):
        return True
    ordered = {"sorted", "positions"} if single else set[str]()
    return arg.index is not None and arg.index.kind not in ordered


def _exchangeable(arg: Arg, call: CallRequest) -> bool:
    """Whether any element may stand in the place of any other."""
    if is_float(arg.dtype_of(call.case)):
        return True
    return arg.index is not None and arg.index.kind == "any"


def _row_starts(shape: Sequence[int], strides: Sequence[int], device: torch.device) -> torch.Tensor:
    """Element at which each row begins, [rows]."""
    starts = torch.zeros(1, dtype=torch.int64, device=device)
    for extent, stride in zip(shape[:-1], strides[:-1], strict=True):
        starts = (starts[:, None] + torch.arange(extent, device=device) * stride).reshape(-1)
    return starts


def turned_away(
    arg: Arg, call: CallRequest, original: torch.Tensor, turn: float, into: torch.Tensor
) -> None:
    """Put an argument's rows, or the elements of a single one, at other places, turned round.

    `turn` in (0, 1) says how far; what lies between rows stays there. A lone element stays too.
    """
    shape, strides = arg.shape_of(call.case), arg.strides_of(call.case)
    item, rows = ITEM_BYTES[arg.dtype_of(call.case)], math.prod(shape[:-1])
    if not len(original):
        return  # it is absent
    if rows > 1 and strides[0] * shape[0] * item != len(original):
        return  # its first axis is not the outermost
    dense = rows * shape[-1] * item == len(original)
    outer = rows if dense else shape[0]
    pieces, piece = (outer, len(original) // outer) if rows > 1 else (shape[-1], item)
    if pieces > 1 and _movable(arg, call, single=rows == 1):
        whole, step = pieces * piece, piece * (1 + int(turn * (pieces - 1)))
        into[: whole - step] = original[step:whole]
        into[whole - step : whole] = original[:step]


def estranged(
    arg: Arg, call: CallRequest, filled: torch.Tensor, sets: Sequence[int], seed: int
) -> None:
    """Put other values of the same set in place of one element in each row of these sets, of more
    in long rows: a kernel that recognizes such a row by a part of it is wrong.

    `filled`: bytes, a row of them a set.
    """
    shape, strides = arg.shape_of(call.case), arg.strides_of(call.case)
    rows, columns = math.prod(shape[:-1]), shape[-1]
    if not rows * columns or not _exchangeable(arg, call):
        return
    flat = filled.view(WORDS[ITEM_BYTES[arg.dtype_of(call.case)]])
    chance = torch.Generator(flat.device)
    chance.manual_seed(seed)

    def drawn(end: int) -> torch.Tensor:
        changes = (len(sets), rows, 1 + columns // FEW)
        return torch.randint(end, changes, generator=chance, device=flat.device)

    start = torch.tensor(sets, device=flat.device)[:, None, None] * flat.shape[1]
    row = _row_starts(shape, strides, flat.device)
    into = row[None, :, None] + drawn(columns) * strides[-1]
    source = row[drawn(rows)] + drawn(columns) * strides[-1]
    whole = flat.view(-1)
    whole[start + into] = whole[start + source]
