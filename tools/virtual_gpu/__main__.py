"""The virtual GPU from the command line: `python -m astra_chat.tools.virtual_gpu run FILE.cu`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from astra_chat.tools.errors import AstraError
from astra_chat.tools.virtual_gpu.devtools.bench import bench
from astra_chat.tools.virtual_gpu.devtools.fuzz import fuzz
from astra_chat.tools.virtual_gpu.devtools.numerics.report import numerics
from astra_chat.tools.virtual_gpu.devtools.validate import validate
from astra_chat.tools.virtual_gpu.programs.programs import TIMEOUT_S, describe, run_program
from astra_chat.tools.virtual_gpu.types import ENGINES


def main(words: Sequence[str] | None = None) -> int:
    """Exit code: the program's own, 99 if a kernel was stopped; 2 bad input, 3 something lacks."""
    given = list(sys.argv[1:] if words is None else words)
    cut = given.index("--") if "--" in given else len(given)
    asked = _parser().parse_args(given[:cut])
    try:
        match asked.what:
            case "bench":
                bench()
            case "fuzz":
                return int(_fuzz(asked) > 0)
            case "numerics":
                return int(_numerics(asked) > 0)
            case "validate":
                validate(asked.device, asked.set, asked.out, again=asked.again)
            case _:
                return _run(asked, given[cut + 1 :])
    except AstraError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _fuzz(asked: argparse.Namespace) -> int:
    return fuzz(asked.ptx, asked.count, asked.seed, asked.ptxas, asked.refused)


def _numerics(asked: argparse.Namespace) -> int:
    return numerics(asked.device, asked.engine, asked.only, asked.out, every_input=asked.all_inputs)


def _run(asked: argparse.Namespace, arguments: list[str]) -> int:
    run = run_program(
        asked.program, arguments, gpu=asked.gpu, engine=asked.engine, flags=asked.flag,
        timeout_s=asked.timeout,
    )  # fmt: skip
    print(describe(run, asked.gpu, profile=asked.profile), file=sys.stderr)
    return run.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m astra_chat.tools.virtual_gpu")
    commands = parser.add_subparsers(dest="what", required=True)
    run = commands.add_parser("run", help="build a CUDA program and run its main() here")
    run.add_argument("program", type=Path, help="a .cu file; behind --, the program's arguments")
    run.add_argument("--gpu", default="h200", help="h200, h100, a100, l40s or rtx4090")
    run.add_argument("--engine", choices=ENGINES, default="auto")
    run.add_argument("--profile", action="store_true", help="counters and estimate by kernel")
    run.add_argument("--flag", action="append", default=[], help="for nvcc, as --flag=-DN=4")
    run.add_argument("--timeout", type=float, default=TIMEOUT_S, metavar="S")
    commands.add_parser("bench", help="how long kernels take here")
    mutate = commands.add_parser("fuzz", help="mutated PTX against the parser and translators")
    mutate.add_argument("ptx", type=Path, nargs="+", help="texts to mutate")
    mutate.add_argument("--count", type=int, default=1000)
    mutate.add_argument("--seed", type=int, default=0)
    mutate.add_argument("--ptxas", type=int, default=0, help="accepted texts to give to ptxas")
    mutate.add_argument("--refused", type=int, default=0, help="texts refused as no PTX, likewise")
    bits = commands.add_parser("numerics", help="results against those of a real GPU")
    bits.add_argument("--device", choices=["virtual", "cuda"], default="virtual")
    bits.add_argument("--engine", choices=["numpy", "c"], default="numpy")
    bits.add_argument("--only", default="", metavar="PREFIX,..", help="of instructions' names")
    bits.add_argument("--all-inputs", action="store_true", help="what is bit-equal, by checksum")
    bits.add_argument("-o", "--out", type=Path, help="folder for table, kept answers and details")
    check = commands.add_parser("validate", help="the estimate against times of a real GPU")
    check.add_argument("--device", choices=["virtual", "cuda"], default="virtual")
    check.add_argument("--set", type=Path, help="folder of another set of kernels")
    check.add_argument("--again", action="store_true", help="count the kernels' work anew")
    check.add_argument("-o", "--out", type=Path, help="where new times or counters are kept")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
