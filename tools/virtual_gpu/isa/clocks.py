"""Time as a kernel sees it: clocks and nanosleep. No engine knows the real time of an instruction.

A step, an instruction of a warp, takes a nanosecond and two cycles, about what the estimate finds
for a lone warp (Constants.pace). So a kernel that waits until a clock has gone so far runs as many
instructions as its estimated time needs.
"""

CYCLES_PER_STEP = 2
MAX_SLEEP_NS = 1_000_000
"""Of one nanosleep, whatever it asks for (PTX ISA, nanosleep)."""
