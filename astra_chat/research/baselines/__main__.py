"""Kernels of others beside ours on a GPU: `python -m astra_chat.research.baselines`.

    extract LIBRARY -o FOLDER      cubins of tasks out of sgl_kernel's common_ops.abi3.so
    measure -o FILE ...            all comparisons for which the user has the kernels
    show FILE... > docs/research/baselines.md

Wheels to take them from: flashinfer-python 0.3.1 (headers), sgl-kernel 0.3.12 (the compiled library
of September 2025), sglang-kernel 0.4.10 (today's), sglang 0.5.23 (compiled at run time). Nothing
of them is kept.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from astra_chat.tools.errors import AstraError, BadInput


def extract(asked: argparse.Namespace) -> None:
    from astra_chat.research.baselines.foreign import IN_LIBRARIES, extract

    names = asked.task or list(IN_LIBRARIES)
    for path in extract(asked.library, names, asked.out):
        print(f"{path}: {path.stat().st_size} bytes")


def measure(asked: argparse.Namespace) -> None:
    from astra_chat.research.baselines.beside import Beside
    from astra_chat.research.baselines.evidence import Comparison, Evidence, write
    from astra_chat.research.baselines.foreign import Places
    from astra_chat.tools.system.devices import pick_device
    from astra_chat.tools.task.folder import find_task, task_names

    device = pick_device(asked.device)
    places = Places(asked.flashinfer, asked.sglang, asked.library, asked.library_today)
    found: list[Comparison] = []
    for name in asked.task or task_names():
        with Beside(find_task(name), device, lambda words: print(words, file=sys.stderr)) as beside:
            for comparison in beside.all(places):
                found.append(comparison)
                write(asked.out, Evidence(device=device, comparisons=tuple(found)))
                print(_line(comparison), file=sys.stderr, flush=True)


def show(asked: argparse.Namespace) -> None:
    from astra_chat.research.baselines.document import document
    from astra_chat.research.baselines.evidence import read

    print(document([(path.name, read(path)) for path in asked.files]))


def _line(comparison: object) -> str:
    from astra_chat.research.baselines.evidence import Comparison

    assert isinstance(comparison, Comparison)
    if comparison.failure:
        return f"  failed: {comparison.failure}"
    return "  " + " ".join(f"{case.ratio:.3f}" for case in comparison.cases)


def parser() -> argparse.ArgumentParser:
    told = argparse.ArgumentParser(
        prog="python -m astra_chat.research.baselines", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    commands = told.add_subparsers(dest="command", required=True)
    extracts = commands.add_parser("extract")
    extracts.add_argument("library", type=Path)
    extracts.add_argument("-o", dest="out", type=Path, required=True)
    extracts.add_argument("--task", action="append")
    measures = commands.add_parser("measure")
    measures.add_argument("-o", dest="out", type=Path, required=True)
    measures.add_argument("--task", action="append", help="one or more; else all shipped tasks")
    measures.add_argument("--device", default="cuda")
    measures.add_argument("--flashinfer", type=Path, help="FlashInfer's folder include")
    measures.add_argument("--sglang", type=Path, help="the folder kernels/jit of package sglang")
    measures.add_argument("--library", type=Path, help="cubins of the compiled library of 2025")
    measures.add_argument("--library-today", type=Path, help="cubins of today's compiled library")
    shows = commands.add_parser("show")
    shows.add_argument("files", type=Path, nargs="+")
    return told


def main() -> None:
    asked = parser().parse_args()
    try:
        for place in ("flashinfer", "sglang", "library", "library_today"):
            path = getattr(asked, place, None)
            if path is not None and not path.exists():
                raise BadInput(f"{path} does not exist")
        {"extract": extract, "measure": measure, "show": show}[asked.command](asked)
    except AstraError as error:
        print(f"astra-chat: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
