"""`python -m astra_chat.tools.sandbox.launch ORDER COMMAND...`: put up walls, become COMMAND.

ORDER is what `walls.Walls.order` wrote. Imports little: every build and every runner passes here.
"""

from __future__ import annotations

import json
import os
import sys

from astra_chat.tools.sandbox import landlock, limits, seccomp


def main() -> None:
    order, command = json.loads(sys.argv[1]), sys.argv[2:]
    limits.limit(order["memory_bytes"], order["file_bytes"])
    if order["landlock"]:
        landlock.restrict(order["read"], order["write"], order["list"], network=order["network"])
    if order["seccomp"]:
        seccomp.wall(network=order["network"], local_sockets=order["gpu"])
        if not order["privileges"]:
            limits.drop_capabilities()
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
