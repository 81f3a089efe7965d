"""Time as a kernel sees it: clocks and nanosleep. No engine knows the real time of an instruction.

A step, an instruction of a warp, takes a nanosecond and two cycles, about what the estimate finds
for a lone warp (Constants.pace). So a kernel that waits until a clock has gone so far runs as many
instructions as its estimated time needs.

A loop that only waits for a clock, or polls memory until one says that it is too late
(lowering/clock_waits.py), may ask for seconds. After LONG_WAIT_NS
each of its instructions sleeps a fixed part of the time waited so far: any wait ends within some
40,000 instructions, late by the part that one turn takes. It costs its time, as sleep.
"""

CLOCKS = frozenset({"%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo"})
CYCLES_PER_STEP = 2
MAX_SLEEP_NS = 1_000_000
"""Longest time that one nanosleep takes, whatever it asks for (PTX ISA, nanosleep)."""
LONG_WAIT_NS = 10_000
ENDLESS_WAIT_NS = 1 << 42
"""More than an hour: from here on a wait takes instructions again, and their budget ends it."""
PART_OF_WAIT_BITS = 10


def slept_in_wait_ns(waited_ns: int, instructions: int) -> int:
    """What a basic block of a loop that waits for a clock sleeps.

    waited_ns: since the loop began."""
    if not LONG_WAIT_NS <= waited_ns < ENDLESS_WAIT_NS:
        return 0
    return waited_ns * instructions >> PART_OF_WAIT_BITS
