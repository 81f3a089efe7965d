"""Post-dominators: the basic blocks through which every lane that was in a block comes later."""

from __future__ import annotations

from collections.abc import Sequence

from astra_vgpu.lowering.control_flow import BasicBlock, Leave


def post_dominators(blocks: Sequence[BasicBlock]) -> list[frozenset[int]]:
    """Returns the post-dominators of each block, itself left out. The plain end of a thread counts
    for no block, nor does a trap as a way to the end."""
    everything = (1 << len(blocks)) - 1
    sets = [1 << n if _ends(block) else everything for n, block in enumerate(blocks)]
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(blocks))):
            if not blocks[number].successors:
                continue
            new = everything
            for successor in blocks[number].successors:
                new &= sets[successor]
            new |= 1 << number
            changed |= new != sets[number]
            sets[number] = new
    counted = [number for number, block in enumerate(blocks) if not block.only_leaves]
    return [
        frozenset(n for n in counted if n != number and mine >> n & 1)
        for number, mine in enumerate(sets)
    ]


def _ends(block: BasicBlock) -> bool:
    trapped = bool(block.body) and block.body[-1].family == "trap"
    return isinstance(block.end, Leave) and not trapped
