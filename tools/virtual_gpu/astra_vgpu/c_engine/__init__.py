"""The C engine: one C function per kernel and warp, with loops over 32 lanes that gcc vectorizes.

The NumPy engine is the reference: it decides what is supported and what an instruction costs.

program     kernel to C file
build       C file to shared library, kept in a cache
launch      runs a launch on all cores
code        translation of one instruction
steps       statements of a basic block, fused into loops over lanes
layout      the structures of simt.h for ctypes
faults      messages of faults

Instruction families: integers, bits, floats, halves, compares, convert, moves, memory,
cp_async, bulk, mbarriers, tensor, warps, control.

C sources: lanes.h (what a lane computes), simt.h and machine.h (warps and workers), blocks.c,
barriers.c, grid.c (cooperative launches), memory.c, heap.c, cp_async.c, bulk.c, mbarriers.c,
counters.c (sectors, bank conflicts), tensor.c, warps.c, doubles.c, printf.c, block_order.c,
block_races.c, warp_races.c, stamps.h, shared_memory_races.c, mbarrier_races.c,
uninitialized_reads.c.
"""

from __future__ import annotations

from astra_vgpu.c_engine import (
    bits,
    compares,
    control,
    convert,
    cp_async,
    floats,
    halves,
    integers,
    mbarriers,
    memory,
    moves,
    tensor,
    warps,
)
from astra_vgpu.c_engine.launch import run
from astra_vgpu.c_engine.program import Program, translate

FAMILY_MODULES = (
    bits,
    compares,
    control,
    convert,
    cp_async,
    floats,
    halves,
    integers,
    mbarriers,
    memory,
    moves,
    tensor,
    warps,
)
"""Importing them registers the families."""

__all__ = ["FAMILY_MODULES", "Program", "run", "translate"]
