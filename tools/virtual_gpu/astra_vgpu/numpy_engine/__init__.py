"""The NumPy engine: runs kernels on arrays of lanes, with sanitizer and exact counters.

program              kernel to Program: basic blocks of steps
schedule             runs a Program, batch by batch of thread blocks
batch                runs one batch: warp scheduling and divergence
frame                state of one batch: registers, active lanes
code                 translation of one instruction: modifiers and operands
dtypes               PTX types as NumPy dtypes
address_spaces       addresses to buffers: global, shared, local, parameter memory
dead_code            code that never runs, translated to find unsupported instructions
barriers             barriers of a thread block (bar.sync, bar.red)
grid_sync            waits between the blocks of a cooperative launch
shared_memory_races  races on shared memory, between warps and within one
mbarrier_state       mbarriers of a batch, and what is in flight to them
mbarrier_races       the same race check where mbarriers order warps
block_races          the check for races between blocks, on arrays of lanes
claimed_rows         its fast way for stores of whole blocks
warp_races           the check between threads of a block on global memory, on arrays of lanes
proxy_fences         the check for bulk copies of what the launch stored itself
pending_copies       copies to shared memory that are in flight
counters             sectors, wavefronts, bank conflicts, divergent branches
unset_registers      registers that are read before anything has set them
first_touch          sectors that a block reads for the first time
l2_atomics           serialized atomics in L2
store_packets        what L1 passes to L2 for stores
instruction_costs    machine instructions and cycles of PTX instructions
block_costs          cost of one execution of a basic block
rounding             halves, directed rounding, FMA with one rounding
doubles              float64 in the directed rounding modes

Instruction families: floats, halves, fp8, integers, bits, compares, moves, convert, loads, atomics,
cache_hints, allocation (malloc and free), cp_async, bulk, mbarriers, mbarrier_waits, tensor, warps,
control.
"""

from __future__ import annotations

from astra_vgpu.numpy_engine import (
    allocation,
    atomics,
    bits,
    cache_hints,
    compares,
    control,
    convert,
    cp_async,
    floats,
    halves,
    integers,
    loads,
    mbarriers,
    moves,
    tensor,
    warps,
)
from astra_vgpu.numpy_engine.program import Program, count, translate
from astra_vgpu.numpy_engine.schedule import INSTRUCTION_BUDGET, run

FAMILY_MODULES = (
    allocation,
    cp_async,
    atomics,
    bits,
    cache_hints,
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
