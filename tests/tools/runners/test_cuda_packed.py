"""Packed arguments in the memory of a GPU: set down, taken up, and filled for timing."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from astra_chat.tools.entropy import Seed
from astra_chat.tools.run.protocol import CallRequest
from astra_chat.tools.runners.arguments import poison
from astra_chat.tools.runners.cuda_compare import differs, element_bytes, elements
from astra_chat.tools.runners.cuda_placed import PlacedArguments
from astra_chat.tools.task.block_images import images, may_change
from astra_chat.tools.task.buffer_layout import Bytes, elements_of, gathered, spread
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.task.placement import layout, packed_pads
from astra_chat.tools.types import Case

TASK = find_task("rotary_embedding")
PATTERN = 0x7FA5
PLAIN = Case(
    dims={"tokens": 5, "heads": 4, "kv_heads": 2, "head_size": 8, "rot_dim": 8, "max_position": 9},
    dtype="bfloat16",
    seed=1,
)
CASES = [
    packed_pads(TASK, PLAIN, [16]),
    PLAIN.model_copy(update={"packed": "tensors"}),
    PLAIN.model_copy(update={"packed": "neighbours", "offset": 3}),
    PLAIN.model_copy(update={"packed": "apart"}),
]
KINDS = [case.packed for case in CASES]
QUERY, KEY = 1, 2


class HostMemory:
    """Memory of this process in the place of a device's."""

    def __init__(self) -> None:
        self._room, self._end = np.zeros(2**16, np.uint8), 0

    def place(self, content: Bytes, lead: int, shift: int) -> int:
        start = -(-self._end // 1024) * 1024 + lead + shift
        self._end = start + len(content)
        self._room[start : self._end] = content
        return start

    def fetched(self, address: int, size: int) -> Bytes:
        content: Bytes = self._room[address : address + size].copy()
        return content


def contents(case: Case) -> list[Bytes]:
    draw = np.random.default_rng(7)
    drawn = [draw.integers(0, 250, arg.bytes_of(case), np.uint8) for arg in TASK.args]
    return [spread(a, case, c, PATTERN) for a, c in zip(TASK.args, drawn, strict=True)]


@pytest.mark.parametrize("case", CASES, ids=KINDS)
def test_arguments_are_set_down_and_taken_up(case: Case) -> None:
    memory, given = HostMemory(), contents(case)
    placed = PlacedArguments(memory, TASK, case, given, PATTERN)
    for left, content in zip(placed.fetched(), given, strict=True):
        assert np.array_equal(left, content)
    lies = layout(TASK, case)
    if case.packed != "apart":
        distance = lies.places[KEY][1] - lies.places[QUERY][1]
        assert placed.addresses[KEY] - placed.addresses[QUERY] == distance
        return
    for address, arg in zip(placed.addresses, TASK.args, strict=True):
        assert address % 1024 == arg.shift_of(case)


@pytest.mark.parametrize("case", CASES, ids=KINDS)
def test_results_of_sets_are_found_in_blocks(case: Case) -> None:
    """What cuda_buffers.py does with tensors on the device, of this process's memory."""
    lies, given = layout(TASK, case), contents(case)
    made = images(lies, given, PATTERN)
    for index, arg in enumerate(TASK.args):
        number, span = lies.places[index][0], lies.span(index)
        row = torch.from_numpy(np.resize(made[number], -(-len(made[number]) // 1024) * 1024))
        block = torch.stack([row, row])
        own = block[:, span]
        wanted = gathered(arg, case, given[index])[0]
        for one in elements(arg, case, own):
            got = one.contiguous().view(torch.uint8).numpy().reshape(-1)
            assert np.array_equal(got, wanted)
        element_bytes(arg, case, own)[1] += 1
        changed = (block[0] != block[1]).numpy()[: lies.blocks[number].bytes]
        mine = np.zeros(lies.blocks[number].bytes, np.bool_)
        elements_of(arg, case, mine[span])[...] = True
        assert np.array_equal(changed, mine)


def test_only_elements_of_results_may_change() -> None:
    lies = layout(TASK, CASES[0])
    number, at = lies.places[KEY]
    free = may_change(lies, number)
    assert free[: at + 2 * 16].all() and not free[at + 2 * 16 : 2 * 64].any()
    then = torch.zeros((2, len(free)), dtype=torch.uint8)
    fixed = ~torch.from_numpy(free)
    for place, seen in ((at, False), (at + 2 * 16, True)):
        now = then.clone()
        now[1, place] = 1
        assert bool(differs(now, then, fixed)) == seen


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=KINDS)
def test_sets_for_timing_lie_as_their_case_says(case: Case, tmp_path: Path) -> None:
    from astra_chat.tools.runners.cuda_buffers import BufferSets

    for arg, content in zip(TASK.args, contents(case), strict=True):
        gathered(arg, case, content)[0].tofile(tmp_path / f"{arg.name}.in")
    np.arange(5, dtype=np.int64).tofile(tmp_path / "positions.in")
    call = CallRequest(case=case, inputs=tmp_path, after=tmp_path, seed=Seed("a"))
    sets, lies = BufferSets(TASK, call, PATTERN, random.Random(3)), layout(TASK, case)
    addresses = sets.addresses(sets.own)
    if case.packed != "apart":
        distance = lies.places[KEY][1] - lies.places[QUERY][1]
        assert addresses[KEY] - addresses[QUERY] == distance
    for index, arg in enumerate(TASK.args):
        wanted = gathered(arg, case, poison(TASK, call, index, PATTERN))[0]
        own = sets.inputs(sets.own)[arg.name].cpu().numpy()
        assert np.array_equal(gathered(arg, case, own)[0], wanted)
    queries = {sets.inputs(which)["query"].cpu().numpy().tobytes() for which in range(sets.count)}
    assert len(queries) == sets.count
    element_bytes(TASK.args[KEY], case, sets.results["key"])[...] += 1
    sets.keep("cold", range(sets.count))
    assert not sets.touched and len(sets.kept[0].results["key"]) == sets.count
    if case.packed == "rows":
        number, at = lies.places[KEY]
        sets._tensors[number][sets.count - 1, at + 2 * 16] ^= 1
        sets.keep("warm", [0])
        assert sets.touched == {"query"}
