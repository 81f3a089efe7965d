"""A launch without clusters: each block is a cluster of its own, with the block's barrier."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from astra_vgpu.ptx.modifiers import is_cluster_barrier
from astra_vgpu.ptx.syntax import Immediate, Instruction, Special

BARRIER = 16
"""Number of the cluster's barrier: the block's own are 0 to 15."""
_ALONE = {Special("%cluster_ctarank"): Immediate(0), Special("%cluster_nctarank"): Immediate(1)}


def of_one_block(instruction: Instruction) -> Iterator[Instruction]:
    """The instruction as a cluster of one block has it. Threads arrive where they wait."""
    if is_cluster_barrier(instruction):
        if "wait" in instruction.modifiers:
            aligned = ".aligned" if "aligned" in instruction.modifiers else ""
            yield dataclasses.replace(
                instruction, opcode=f"barrier.sync{aligned}", operands=(Immediate(BARRIER),)
            )
    elif any(isinstance(operand, Special) for operand in instruction.operands):
        operands = tuple(
            _ALONE.get(o, o) if isinstance(o, Special) else o for o in instruction.operands
        )
        yield dataclasses.replace(instruction, operands=operands)
    else:
        yield instruction
