"""The servers that fork child processes, and which modules each has loaded."""

from __future__ import annotations

from astra_chat.tools.system.forked import ForkServer

VIRTUAL = ForkServer(
    (
        "astra_chat.tools.runners.virtual",
        "astra_chat.tools.runners.virtual_far",
        "astra_chat.tools.runners.translate",
        "astra_chat.tools.runners.recorded_plans",
    ),
)
"""Starts the processes of the virtual GPU: they need neither torch nor CUDA, and are many."""
TORCH = ForkServer(
    (
        "astra_chat.tools.runners.oracle",
        "astra_chat.tools.runners.cuda",
        "astra_chat.tools.runners.cuda_sweep",
    ),
)
"""Starts the processes that need torch, which takes seconds to load. It touches no GPU: a context
of CUDA's does not survive a fork, so each process makes its own."""


def server_of(module: str) -> ForkServer | None:
    """Returns the server that starts a module of tools/runners/, if one does here."""
    return next((one for one in (VIRTUAL, TORCH) if one.serves(module)), None)
