"""The constants of the estimate: measured on a GPU one by one, or fitted to recorded times."""

from __future__ import annotations

from dataclasses import dataclass

L1_SECTORS_PER_TURN = 4
"""Sectors of loads that L1 serves, a clock and SM; measured on an H200."""
L2_NEAR = 0.4
"""A footprint of this share of L2 lies in both halves of it; twice as large, in one each."""
AHEAD = 16
"""So many blocks that want one sector wait for it together; of more, most find it."""
PACKETS_PER_CLOCK = 1.5
"""Packets that an SM hands to L2 a clock: a whole line in four cycles, a sector a cycle (H200)."""
MATCH_TURNS, MATCH_CYCLES = 2.0, 11.0
"""Cycles of a match.any for each different value of a warp's lanes: of the SM's shared-memory unit,
and until its result; measured on an H200."""
CONSTANT_WORD_TURNS, CONSTANT_WORD_CYCLES = 2.0, 11.0
"""Cycles for each further word of a constant load whose lanes want different ones: of the SM's
constant cache, and until the result; measured on an H100 (`lab.virtual_gpu constants`). For words
in more than 16 lines of 128 bytes it is more, since they do not stay in that cache."""
L1_LATENCY_CYCLES = 43.0
"""Cycles until L1 has served a load; measured on an H200."""
MEETING_CYCLES, MEETING_WARPS = 2.0, 4
"""Cycles of a barrier for each warp of the block beyond MEETING_WARPS, whose cycles are counted
already; H200: 20 with 4 warps, 77 with 32."""


@dataclass(frozen=True)
class Constants:
    """What no counter shows."""

    overlap: float = 3.13
    """Exponent of the p-norm: 1 adds the terms, infinity takes the largest."""
    chain: float = 1.02
    """Time of a warp's chain of results, over critical_path_cycles."""
    load: float = 1.07
    """Wait for a load, over the latency that a pointer chase shows."""
    hiding: float = 1.54
    """Exponent of the p-norm of a warp's own time and of the units' on an SM."""
    first_round: float = 0.741
    """What nothing hides at a launch's start and end, in rounds of loads and what follows them."""
    phases: float = 0.589
    """Share of the first blocks' time after their first round that nothing hides either: all are at
    the same point then."""
    scattered_load: float = 2.82
    """Further time of a sector from L2 that is not used in full, over one that is."""
    store_packet: float = 1.0
    """Cycles of all SMs together for each packet that L1 hands to L2."""
    start: float = 12.4
    """Cycles for each warp of a block: the block's place is free when its last warp is through."""
    pace: float = 2.16
    """Cycles between a lone warp's machine instructions, whatever they wait for."""
    atomic_ns: float = 0.729
    """Time of each turn of atomics on one region of L2."""
    float_atomic_ns: float = 1.87
    """Time of each turn of float atomics on one sector: the sum before must be there."""
    spread_atomic_ns: float = 0.0158
    """Time of each turn of atomics anywhere in L2."""
    cold_us: float = 0.168
    """Further time of a launch whose first loads find nothing in L2, beyond their wait."""
    ramp_us: float = 0.334
    """Further time of a launch that touches memory at all, over an empty one."""
    shuffle_turns: float = 1.11
    """Turns of the shared-memory unit for a shuffle."""
    barrier_turns: float = 0.658
    """Turns of the shared-memory unit for a barrier."""


FITTED = Constants()
