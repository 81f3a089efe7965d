"""Tools of the virtual GPU's developers: `python -m lab.virtual_gpu NAME`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from astra_vgpu.ground.errors import AstraError
from lab.virtual_gpu.bench import bench
from lab.virtual_gpu.constant_words import constants
from lab.virtual_gpu.fuzz import fuzz
from lab.virtual_gpu.numerics.report import numerics
from lab.virtual_gpu.validate import validate


def main(words: Sequence[str] | None = None) -> int:
    """Exit code: 0, or 1 where fuzz or numerics found something; 2 bad input, 3 missing
    dependency."""
    asked = _parser().parse_args(words)
    try:
        match asked.command:
            case "bench":
                bench()
            case "constants":
                constants()
            case "fuzz":
                return int(_fuzz(asked) > 0)
            case "numerics":
                return int(_numerics(asked) > 0)
            case "validate":
                validate(asked.device, asked.set, asked.out, again=asked.again)
    except AstraError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _fuzz(asked: argparse.Namespace) -> int:
    return fuzz(asked.ptx, asked.count, asked.seed, asked.ptxas, asked.refused)


def _numerics(asked: argparse.Namespace) -> int:
    return numerics(asked.device, asked.engine, asked.only, asked.out, every_input=asked.all_inputs)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab.virtual_gpu")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("bench", help="time kernels on this machine")
    commands.add_parser(
        "constants",
        help="measure the cycles of constant loads by the number of different words (needs a GPU)",
    )
    mutate = commands.add_parser("fuzz", help="feed mutated PTX to the parser and the translators")
    mutate.add_argument("ptx", type=Path, nargs="+", help="texts to mutate")
    mutate.add_argument("--count", type=int, default=1000)
    mutate.add_argument("--seed", type=int, default=0)
    mutate.add_argument(
        "--ptxas", type=int, default=0, help="number of accepted texts to give to ptxas"
    )
    mutate.add_argument(
        "--refused", type=int, default=0, help="number of texts rejected as PTX to give to ptxas"
    )
    bits = commands.add_parser("numerics", help="compare results with those of a real GPU")
    bits.add_argument("--device", choices=["virtual", "cuda"], default="virtual")
    bits.add_argument("--engine", choices=["numpy", "c"], default="numpy")
    bits.add_argument(
        "--only", default="", metavar="PREFIX,..", help="prefixes of instruction names"
    )
    bits.add_argument(
        "--all-inputs",
        action="store_true",
        help="compare all inputs of bit-exact instructions, by checksum",
    )
    bits.add_argument(
        "-o", "--out", type=Path, help="folder for the table, recorded answers and details"
    )
    check = commands.add_parser("validate", help="compare the estimate with times of a real GPU")
    check.add_argument("--device", choices=["virtual", "cuda"], default="virtual")
    check.add_argument("--set", type=Path, help="folder of another set of kernels")
    check.add_argument("--again", action="store_true", help="count the kernels' work again")
    check.add_argument("-o", "--out", type=Path, help="folder for new times or counters")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
