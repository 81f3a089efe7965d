"""`python -m astra_chat.tools.sandbox.launch ORDER COMMAND...`: applies the sandbox, runs COMMAND.

ORDER is what `policy.SandboxPolicy.order` wrote. Imports little: every build and every runner
starts through this module.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from astra_chat.tools.sandbox import landlock, limits, seccomp


def apply(order: Mapping[str, Any]) -> None:
    """Put this process, and all that it starts, into the sandbox; for good."""
    limits.limit(order["memory_bytes"], order["file_bytes"])
    if order["landlock"]:
        landlock.restrict(order["read"], order["write"], order["list"], network=order["network"])
    if order["seccomp"]:
        seccomp.wall(network=order["network"], local_sockets=order["gpu"])
        if not order["privileges"]:
            limits.drop_capabilities()


def main() -> None:
    order, command = json.loads(sys.argv[1]), sys.argv[2:]
    apply(order)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
