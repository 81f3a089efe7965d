"""Command line of the virtual GPU: `python -m astra_chat.tools.virtual_gpu run FILE.cu`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from astra_chat.tools.errors import AstraError
from astra_chat.tools.virtual_gpu.programs.run_command import add_options, run_command


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 clean, 1 findings, 2 bad input, 3 missing dependency; or the program's own."""
    given = list(sys.argv[1:] if argv is None else argv)
    cut = given.index("--") if "--" in given else len(given)
    asked = _parser().parse_args(given[:cut])
    try:
        return run_command(asked, given[cut + 1 :])
    except AstraError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m astra_chat.tools.virtual_gpu")
    commands = parser.add_subparsers(dest="command", required=True)
    add_options(commands.add_parser("run", help="build a CUDA program and run it"))
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
