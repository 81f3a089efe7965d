"""`python -m astra_chat.tools.virtual_gpu bench`: the virtual GPU from the command line."""

from __future__ import annotations

import argparse
import sys

from astra_chat.tools.errors import AstraError
from astra_chat.tools.virtual_gpu.bench import bench


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m astra_chat.tools.virtual_gpu")
    parser.add_argument("what", choices=["bench"], help="bench: how long kernels take here")
    parser.parse_args()
    try:
        bench()
    except AstraError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
