"""Command line of the virtual GPU: `python -m astra_chat.tools.virtual_gpu run FILE.cu`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from astra_chat.tools.errors import AstraError
from astra_chat.tools.gpu_specs import DEFAULT_GPU, SPECS
from astra_chat.tools.virtual_gpu.programs.run_program import TIMEOUT_S, describe, run_program
from astra_chat.tools.virtual_gpu.types import ENGINES


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: the program's own, 99 if a kernel was stopped, 2 bad input, 3 missing
    dependency."""
    given = list(sys.argv[1:] if argv is None else argv)
    cut = given.index("--") if "--" in given else len(given)
    asked = _parser().parse_args(given[:cut])
    try:
        run = run_program(
            asked.program, given[cut + 1 :], gpu=asked.gpu, engine=asked.engine, flags=asked.flag,
            timeout_s=asked.timeout,
        )  # fmt: skip
        print(describe(run, asked.gpu, profile=asked.profile), file=sys.stderr)
    except AstraError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return run.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m astra_chat.tools.virtual_gpu")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="build a CUDA program and run it on the virtual GPU")
    run.add_argument("program", type=Path, help="a .cu file; after --, the program's arguments")
    run.add_argument("--gpu", default=DEFAULT_GPU, help=f"GPU to estimate for: {', '.join(SPECS)}")
    run.add_argument("--engine", choices=ENGINES, default="auto")
    run.add_argument(
        "--profile", action="store_true", help="print counters and estimated times by kernel"
    )
    run.add_argument("--flag", action="append", default=[], help="a flag for nvcc, as --flag=-DN=4")
    run.add_argument("--timeout", type=float, default=TIMEOUT_S, metavar="S")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
