"""The device's heap by itself."""

from __future__ import annotations

import itertools
import random

from astra_vgpu.memory.heap import ALIGNMENT_BYTES, Heap


def test_blocks_never_overlap_and_all_room_comes_back() -> None:
    heap, chance, held = Heap(4096), random.Random(5), {}
    for _ in range(2000):
        if held and chance.random() < 0.5:
            address = chance.choice(sorted(held))
            assert heap.give(address) and held.pop(address)
        elif address := heap.take(size := chance.randrange(1, 500)):
            assert address % ALIGNMENT_BYTES == 0
            held[address] = size
        blocks = sorted(held.items())
        assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(blocks))
        assert heap.allocated.sum() == sum(held.values())
    for address in held:
        assert heap.give(address)
    assert heap.take(4096) == heap.address and heap.take(1) == 0


def test_what_malloc_did_not_give_can_not_be_freed() -> None:
    heap = Heap(1024)
    address = heap.take(100)
    assert heap.give(0) and not heap.give(address + 32)
    assert heap.give(address) and not heap.give(address)
    assert heap.take(0) == 0
