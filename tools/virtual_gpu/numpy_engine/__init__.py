"""The NumPy back end: runs translated kernels on arrays of lanes, with sanitizer and counters.

code.py      one instruction's modifiers and operands, each taken once or refused
program.py   kernel -> Program                 schedule.py   runs it, batch by batch
frame.py     the state of a batch              barriers.py   of a thread block
arena.py     where addresses lead              races.py, ordered_races.py   the race check
counters.py, mix.py   exact counters
Families of instructions: floats, halves, integers, bits, compares, moves, convert, loads,
asynchronous, bulk, mbarriers, polls, pauses, atomics, warps, control; rounding.py has the
arithmetic that needs care.
"""

from __future__ import annotations

from astra_chat.tools.virtual_gpu.numpy_engine import (
    allocation,
    asynchronous,
    atomics,
    bits,
    compares,
    control,
    convert,
    floats,
    halves,
    integers,
    loads,
    mbarriers,
    moves,
    tensor,
    warps,
)
from astra_chat.tools.virtual_gpu.numpy_engine.program import Program, count, translate
from astra_chat.tools.virtual_gpu.numpy_engine.schedule import INSTRUCTION_BUDGET, run

FAMILY_MODULES = (
    allocation,
    asynchronous,
    atomics,
    bits,
    compares,
    control,
    convert,
    floats,
    halves,
    integers,
    loads,
    mbarriers,
    moves,
    tensor,
    warps,
)
"""Importing them registers the families."""

__all__ = ["FAMILY_MODULES", "INSTRUCTION_BUDGET", "Program", "count", "run", "translate"]
