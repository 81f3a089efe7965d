"""Command line of the virtual GPU: `astra-vgpu run FILE.cu`, `astra-vgpu nvcc`, `doctor`.

Without an installation: `python -m astra_vgpu run FILE.cu`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from astra_vgpu.ground.errors import AstraError
from astra_vgpu.programs.doctor import doctor
from astra_vgpu.programs.nvcc_command import link_folder
from astra_vgpu.programs.nvcc_command import main as nvcc
from astra_vgpu.programs.run_command import add_options, run_command


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 clean, 1 findings, 2 bad input, 3 missing dependency; or the program's own."""
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] == ["nvcc"]:
        return nvcc(given[1:])
    cut = given.index("--") if "--" in given else len(given)
    asked = _parser().parse_args(given[:cut])
    try:
        match asked.command:
            case "run":
                return run_command(asked, given[cut + 1 :])
            case "libdir":
                print(link_folder())
                return 0
            case _:
                return doctor()
    except AstraError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="astra-vgpu", description="CUDA programs without a GPU: sanitizer, counters, estimates"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    add_options(commands.add_parser("run", help="build a CUDA program and run it"))
    commands.add_parser("nvcc", help="nvcc whose programs run on the virtual GPU (for Make, CMake)")
    commands.add_parser("libdir", help="print the folder of its libcudart, for the linker's -L")
    commands.add_parser("doctor", help="say what is missing on this machine")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
