"""Other projects' kernels compared with ours on a GPU: `python -m lab.baselines`.

    extract LIBRARY -o FOLDER      cubins of tasks out of sgl_kernel's common_ops.abi3.so
    translate OPS -o FOLDER        Triton kernels of sglang/kernels/ops, where Triton is installed
    cute FLASHINFER -o FOLDER      norms in CuTe DSL of the package flashinfer, where
                                   nvidia-cutlass-dsl 4.7, torch and tqdm are installed
    check ...                      their results on the virtual GPU, those with source
    measure -o FILE ...            all comparisons for which the user has the kernels; with
                                   --winners FOLDER, only those of winners and today's kernels
    show [--cases] FILE... > docs/research/baselines.md

The kernels come from these packages: flashinfer-python 0.3.1 and 0.7.2 (headers), sgl-kernel 0.3.12
(the compiled library of September 2025), sglang-kernel 0.4.10 (today's), sglang 0.5.23 (compiled at
run time). Nothing from them is stored here.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from astra_vgpu.ground.errors import BadInput
from lab.commands import one_line_errors

if TYPE_CHECKING:
    from lab.baselines.foreign import Places

PLACES = {
    "--flashinfer": "FlashInfer's include folder, from September 2025",
    "--flashinfer-today": "FlashInfer's include folder, today's version",
    "--sglang": "the folder kernels/jit of the sglang package",
    "--library": "cubins of the compiled library of 2025",
    "--library-today": "cubins of today's compiled library",
    "--triton": "the folder that translate wrote",
    "--cute": "the folder that cute wrote",
}


def extract(asked: argparse.Namespace) -> None:
    from lab.baselines.foreign import extract

    for path in extract(asked.library, asked.task or (), asked.out):
        print(f"{path}: {path.stat().st_size} bytes")


def translate(asked: argparse.Namespace) -> None:
    from lab.baselines.triton_kernels import translate

    for path in translate(asked.ops, asked.out):
        print(f"{path}: {path.stat().st_size} bytes")


def cute(asked: argparse.Namespace) -> None:
    from lab.baselines.cute_kernels import write_cute

    for path in write_cute(asked.flashinfer_package, asked.out):
        print(f"{path}: {path.stat().st_size} bytes")


def check(asked: argparse.Namespace) -> None:
    from astra_chat.tools.system.devices import pick_device
    from astra_chat.tools.task.folder import find_task, task_names
    from lab.baselines.checked import check

    device = pick_device("virtual")
    for name in asked.task or task_names():
        for checked in check(find_task(name), _places(asked), device, asked.cases):
            print(f"{name}: {checked}", flush=True)


def measure(asked: argparse.Namespace) -> None:
    from astra_chat.tools.system.devices import pick_device
    from astra_chat.tools.task.folder import find_task, task_names
    from lab.baselines.measuring import BaselineMeasuring

    def tell(words: str) -> None:
        print(words, file=sys.stderr, flush=True)

    deadline = time.monotonic() + asked.budget_s
    measuring = BaselineMeasuring(asked.out, pick_device(asked.device), deadline, tell)
    tasks = [find_task(name) for name in asked.task or task_names()]
    if left := measuring.run(tasks, _places(asked), asked.winners):
        tell(f"{left} comparisons left: run it again with {asked.out}")


def show(asked: argparse.Namespace) -> None:
    from lab.baselines.document import document
    from lab.baselines.evidence import read

    print(document([(path.name, read(path)) for path in asked.files], asked.cases))


def _name(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _places(asked: argparse.Namespace) -> Places:
    from lab.baselines.foreign import Places

    return Places(*(getattr(asked, _name(option)) for option in PLACES))


def parser() -> argparse.ArgumentParser:
    told = argparse.ArgumentParser(
        prog="python -m lab.baselines",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = told.add_subparsers(dest="command", required=True)
    extracts = commands.add_parser("extract")
    extracts.add_argument("library", type=Path)
    extracts.add_argument("-o", dest="out", type=Path, required=True)
    extracts.add_argument("--task", action="append")
    translates = commands.add_parser("translate")
    translates.add_argument("ops", type=Path)
    translates.add_argument("-o", dest="out", type=Path, required=True)
    cutes = commands.add_parser("cute")
    cutes.add_argument("flashinfer_package", type=Path, metavar="FLASHINFER")
    cutes.add_argument("-o", dest="out", type=Path, required=True)
    checks = commands.add_parser("check")
    checks.add_argument(
        "--cases", type=int, default=2, help="number of timed cases per task, smallest first"
    )
    measures = commands.add_parser("measure")
    measures.add_argument("-o", dest="out", type=Path, required=True)
    measures.add_argument("--device", default="cuda")
    measures.add_argument(
        "--winners",
        type=Path,
        help="measure only the winners in this folder, which lab.winner_files wrote",
    )
    measures.add_argument(
        "--budget-s",
        type=float,
        default=math.inf,
        help="stop after this many seconds; if FILE is given again, only what it lacks is measured",
    )
    for each in (checks, measures):
        each.add_argument(
            "--task", action="append", help="a task, may be repeated; default: all shipped tasks"
        )
        for option, words in PLACES.items():
            each.add_argument(option, type=Path, help=words)
    shows = commands.add_parser("show")
    shows.add_argument("files", type=Path, nargs="+")
    shows.add_argument("--cases", action="store_true", help="also print the times of every case")
    return told


@one_line_errors()
def main() -> None:
    asked = parser().parse_args()
    for path in (getattr(asked, _name(option), None) for option in (*PLACES, "library", "winners")):
        if path is not None and not path.exists():
            raise BadInput(f"{path} does not exist")
    commands = {
        "extract": extract,
        "translate": translate,
        "cute": cute,
        "check": check,
        "measure": measure,
        "show": show,
    }
    commands[asked.command](asked)


if __name__ == "__main__":
    main()
