"""The C back end: one C function per warp, loops over 32 lanes that the host compiler vectorises.

program.py   kernel -> C file                build.py    C file -> library, in a cache
code.py      one instruction's operands      launch.py   runs it, on all cores
steps.py     statements -> loops             faults.py   what went wrong, in words
Families of instructions: integers, bits, floats, halves, compares, convert, moves, memory, warps,
control. In C: lanes.h (what a lane computes), simt.h, machine.h (warps and workers), blocks.c,
barriers.c, grid.c, memory.c, copies.c, bulk.c, mbarriers.c, order.c, races.c, counters.c, tensor.c,
warps.c.

The NumPy engine is the reference: it decides what is supported and what an instruction costs.
"""

from __future__ import annotations

from astra_chat.tools.virtual_gpu.c_engine import (
    bits,
    compares,
    control,
    convert,
    copies,
    floats,
    halves,
    integers,
    mbarriers,
    memory,
    moves,
    tensor,
    warps,
)
from astra_chat.tools.virtual_gpu.c_engine.launch import run
from astra_chat.tools.virtual_gpu.c_engine.program import Program, translate

FAMILY_MODULES = (
    bits, compares, control, convert, copies, floats, halves, integers, mbarriers, memory, moves,
    tensor, warps,
)  # fmt: skip
"""Importing them registers the families."""

__all__ = ["FAMILY_MODULES", "Program", "run", "translate"]
