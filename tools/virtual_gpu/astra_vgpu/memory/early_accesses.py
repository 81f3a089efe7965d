"""What a thread may touch before griddepcontrol.wait, in a launch that may begin before the work
ahead of it has ended (programmatic dependent launch).

That work may still read and write everything that is not marked. Each thread has to wait itself:
what one thread has waited for another thread has not seen.
"""

from __future__ import annotations

NOTHING, READS, EVERYTHING = range(3)
"""What a thread may do in a buffer before the wait. READS: its contents are the same in every call
(weights, tables, variables of the kernel file); EVERYTHING: nobody else has it (the device's
heap)."""
WAIT = "griddepcontrol.wait"
WHEN = "in a launch that may begin before the work ahead of it has ended"
ALLOWED = "before the wait only weights, which hold the same in every call, may be read"


def early_message(verb: str, size: int, place: str) -> str:
    """verb: read or write; place: buffer and offset."""
    who = f"a thread that has not executed {WAIT}"
    return f"{verb} of {size} bytes at {place} by {who}, {WHEN} ({ALLOWED})"
