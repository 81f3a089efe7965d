"""Buffers for timing: one set of arguments a launch, so that no launch finds its data in the L2.

A launch must gain nothing from those before it. So every replay starts from inputs as they were and
poisoned outputs; each set serves one launch of a replay; the sets are taken in an order drawn by
chance, for a kernel could fetch the next one's data; and what lies between them may not change.
Where the data are meant to lie in the L2, one set is restored before each launch of a replay.
"""

from __future__ import annotations

import ctypes
import math
import random
from collections.abc import Sequence

import torch

from astra_chat.tools.children.arguments import poison
from astra_chat.tools.plan.stand_ins import ALIGNMENT
from astra_chat.tools.run.protocol import CallRequest
from astra_chat.tools.task.buffer_layout import buffer_bytes
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import ITEM_BYTES

MIN_SETS, MAX_SETS = 20, 1024
MEMORY_SHARE = 0.4
"""Of the device's free memory: the sets and what they are refilled from."""
VERIFIED_BYTES = 256 * 2**20
"""At most this much of what cold launches wrote is handed to the judge, or one set."""
FURTHER_BYTES = 32 * 2**20
"""The same of warm launches, and of those with an event pair around each."""
FEW = 4096
"""Of so many elements of a row one differs from set to set."""
PERSISTING_L2_LIMIT = 6
"""The driver's number of the limit on L2 that access policy windows may keep."""


class BufferSets:
    """Copies of a call's arguments that together fill the L2 twice, as far as MAX_SETS allows.

    A random third holds the case's inputs and is verified. The others hold nearly the same, half of
    them with rows at other places: an element of each row is another. So a kernel gains nothing by
    reading what lies beside its arguments, nor by what it left in the chip for later launches: the
    result that it finds is mostly another's, and only who reads all of a row can tell.

    `cool` reads a large buffer last: reading leaves no dirty lines whose write-back would be timed
    with the kernel.
    """

    def __init__(self, task: Task, call: CallRequest, pattern: int, chance: random.Random) -> None:
        self._task, self._call, self._chance = task, call, chance
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._driver.cuCtxSetLimit(PERSISTING_L2_LIMIT, ctypes.c_size_t(0))
        l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        self._sizes = [buffer_bytes(arg, call.case) for arg in task.args]
        strides = [(size // ALIGNMENT + 2) * ALIGNMENT for size in self._sizes]
        self._cooler = torch.zeros(2 * l2_bytes // 4, device="cuda")
        most = int(MEMORY_SHARE * torch.cuda.mem_get_info()[0] / (2 * sum(strides)))
        wanted = min(MAX_SETS, math.ceil(2 * l2_bytes / sum(self._sizes)) + 1)
        self.count = max(2, min(most, max(MIN_SETS, wanted)))
        self.order = chance.sample(range(self.count), self.count)
        self.verified = sorted(chance.sample(range(self.count), self._most_verified()))
        self._filled = [
            aligned(self.count * stride)
            .view(torch.int16)
            .fill_(pattern - (pattern >> 15 << 16))
            .view(torch.uint8)
            .view(self.count, stride)
            for stride in strides
        ]
        self._fill(pattern)
        self._tensors = [aligned(f.numel()).view(f.shape) for f in self._filled]
        self._shot = [torch.empty_like(filled[0]) for filled in self._filled]
        self._kept: dict[str, list[torch.Tensor]] = {}
        self.touched: set[str] = set()
        """Arguments round which, or in which though they may only be read, something changed."""
        self.refill()
        self.restore(0)  # its kernel is loaded now: not while a graph is recorded

    def addresses(self, which: int) -> list[int]:
        """Of a set, in the order of the task's args."""
        return [tensor[which].data_ptr() for tensor in self._tensors]

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

    def shoot(self, which: int) -> None:
        """Take down what a set holds now, for `keep_shot`."""
        for tensor, shot in zip(self._tensors, self._shot, strict=True):
            _copied(tensor[which], shot)

    def keep(self, what: str, launched: Sequence[int], most_bytes: int) -> None:
        """Keep for `write_back` what was just written to verified ones among these sets; what was
        kept under that name is forgotten."""
        candidates = [which for which in self.verified if which in set(launched)]
        most = max(1, most_bytes // sum(self._sizes))
        chosen = sorted(self._chance.sample(candidates, min(most, len(candidates))))
        self._kept[what] = [
            tensor[chosen][:, :size].contiguous()
            for tensor, size in zip(self._tensors, self._sizes, strict=True)
        ]
        self._look()

    def keep_shot(self) -> None:
        """Keep what was taken down last, of a verified set."""
        self._kept["shot"] = [
            shot[None, :size].clone() for shot, size in zip(self._shot, self._sizes, strict=True)
        ]
        self._look()

    def _look(self) -> None:
        for arg, size, tensor, filled in zip(
            self._task.args, self._sizes, self._tensors, self._filled, strict=True
        ):
            start = size if arg.written else 0
            if not torch.equal(tensor[:, start:], filled[:, start:]):
                self.touched.add(arg.name)

    def write_back(self) -> int:
        """Hand what was kept to the judge, one set after the other in each file; their number."""
        sets = distinct(list(self._kept.values()))
        for index, arg in enumerate(self._task.args):
            with (self._call.after / f"{arg.name}.after").open("wb") as file:
                for arguments in sets:
                    arguments[index].cpu().numpy().tofile(file)
        return len(sets)

    def _fill(self, pattern: int) -> None:
        others = [which for which in range(self.count) if which not in self.verified]
        turns = {which: self._chance.random() for which in others if self._chance.random() < 0.5}
        for index, (arg, filled) in enumerate(zip(self._task.args, self._filled, strict=True)):
            original = torch.from_numpy(poison(self._task, self._call, index, pattern)).cuda()
            filled[:, : len(original)] = original
            if arg.read:
                for which, turn in turns.items():
                    turned_away(arg, self._call, original, turn, filled[which])
                estranged(arg, self._call, filled, others, self._chance.getrandbits(63))

    def _most_verified(self) -> int:
        """How many sets fit into VERIFIED_BYTES: at least one, at most a third of them."""
        return max(1, min(self.count // 3, VERIFIED_BYTES // sum(self._sizes)))


def aligned(size: int) -> torch.Tensor:
    """So many bytes of the device's memory, at an address with the alignment that plans are
    recorded for."""
    room = torch.empty(size + ALIGNMENT, dtype=torch.uint8, device="cuda")
    start = -room.data_ptr() % ALIGNMENT
    return room[start : start + size]


def distinct(kept: Sequence[Sequence[torch.Tensor]]) -> list[list[torch.Tensor]]:
    """Arguments of the first set, and of those that differ from it: all began alike, so what is
    said of it holds of the others too.

    `kept`: by mode of timing and by argument, bytes, a row of them a set.
    """
    first = [rows[0] for rows in kept[0]]
    found = [first]
    for mode in kept:
        pairs = zip(mode, first, strict=True)
        same = torch.stack([(rows == one).all(dim=1) for rows, one in pairs]).all(dim=0)
        found += [[rows[which] for rows in mode] for which in torch.nonzero(~same).flatten()]
    return found


def _copied(source: torch.Tensor, target: torch.Tensor) -> None:
    torch.bitwise_or(source.view(torch.int64), 0, out=target.view(torch.int64))


def turned_away(
    arg: Arg, call: CallRequest, original: torch.Tensor, turn: float, into: torch.Tensor
) -> None:
    """Put an argument's rows, or the elements of a single one, at other places, turned round.

    `turn` in (0, 1) says how far; what lies between rows stays there. A lone element stays too.
    """
    rows = math.prod(arg.shape_of(call.case)[:-1])
    elements, item = arg.shape_of(call.case)[-1], ITEM_BYTES[arg.dtype_of(call.case)]
    pieces, piece = (rows, len(original) // rows) if rows > 1 else (elements, item)
    if pieces > 1:
        whole, step = pieces * piece, piece * (1 + int(turn * (pieces - 1)))
        into[: whole - step] = original[step:whole]
        into[whole - step : whole] = original[:step]


def estranged(
    arg: Arg, call: CallRequest, filled: torch.Tensor, sets: Sequence[int], seed: int
) -> None:
    """Put other values of the same set in place of one element in each row of these sets, of more
    in long rows: who takes such a row for one that he knows, by looking at some of it, is wrong.

    `filled`: bytes, a row of them a set.
    """
    shape, item = arg.shape_of(call.case), ITEM_BYTES[arg.dtype_of(call.case)]
    rows, columns = math.prod(shape[:-1]), shape[-1]
    flat = filled.view(torch.int16 if item == 2 else torch.int32)
    step = buffer_bytes(arg, call.case) // item // rows
    chance = torch.Generator(flat.device)
    chance.manual_seed(seed)

    def drawn(end: int) -> torch.Tensor:
        changes = (len(sets), rows, 1 + columns // FEW)
        return torch.randint(end, changes, generator=chance, device=flat.device)

    start = torch.tensor(sets, device=flat.device)[:, None, None] * flat.shape[1]
    row = torch.arange(rows, device=flat.device)[None, :, None]
    into, source = row * step + drawn(columns), drawn(rows) * step + drawn(columns)
    whole = flat.view(-1)
    whole[start + into] = whole[start + source]
