"""The command `run`: its options, the program's run, and its reports."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from astra_vgpu.ground.gpu_specs import DEFAULT_GPU, SPECS
from astra_vgpu.programs.report_files import as_json, as_sarif, write_report
from astra_vgpu.programs.report_text import describe
from astra_vgpu.programs.run_program import (
    FOUND,
    TIMEOUT_S,
    ProgramRun,
    run_program,
)
from astra_vgpu.programs.suppressions import (
    Sorted,
    Suppression,
    read_suppressions,
)
from astra_vgpu.types import ENGINES


def add_options(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "sources", type=Path, nargs="+", help=".cu, .cpp and .c files; after --, main()'s arguments"
    )
    for letter, what in (
        ("I", "folder of headers"),
        ("D", "macro"),
        ("l", "library"),
        ("L", "folder of libraries"),
        ("O", "optimization level"),
    ):
        run.add_argument(f"-{letter}", action="append", default=[], metavar="X", help=what)
    run.add_argument("-std", "--std", help="c++17, c++20, ...")
    run.add_argument(
        "-arch",
        "--gpu-architecture",
        dest="gpu_architecture",
        help="build for an older GPU, as nvcc takes it",
    )
    add_report_options(run)
    run.add_argument("--flag", action="append", default=[], help="a flag for nvcc, as --flag=-G")
    run.add_argument("--timeout", type=float, default=TIMEOUT_S, metavar="S")


def add_report_options(run: argparse.ArgumentParser) -> None:
    """Options of how a program runs and what is reported, however it was built."""
    run.add_argument("--gpu", default=DEFAULT_GPU, help=f"GPU to estimate for: {', '.join(SPECS)}")
    run.add_argument("--engine", choices=ENGINES, default="auto")
    run.add_argument(
        "--profile", action="store_true", help="print counters and estimated times by kernel"
    )
    run.add_argument(
        "--keep-going", action="store_true", help="continue after a finding, and report all"
    )
    run.add_argument("--suppressions", type=Path, metavar="FILE", help="findings to accept (TOML)")
    run.add_argument("--warnings-as-errors", action="store_true", help="exit code 1 for warnings")
    run.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    run.add_argument("--sarif", type=Path, metavar="FILE", help="write findings as SARIF 2.1.0")


def run_command(asked: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Exit code: 1 if there are findings, 3 if something is not supported, else the program's."""
    suppressions = accepted(asked)
    run = run_program(
        asked.sources,
        arguments,
        gpu=asked.gpu,
        engine=asked.engine,
        flags=_flags(asked),
        timeout_s=asked.timeout,
        keep_going=asked.keep_going,
    )
    return report(run, asked, suppressions, [source.parent for source in asked.sources])


def accepted(asked: argparse.Namespace) -> tuple[Suppression, ...]:
    return read_suppressions(asked.suppressions) if asked.suppressions else ()


def report(
    run: ProgramRun,
    asked: argparse.Namespace,
    suppressions: Sequence[Suppression],
    folders: Sequence[Path],
) -> int:
    """Prints and writes what is asked for; the exit code. folders: where sources may lie."""
    found = Sorted.of(run.findings, suppressions)
    failed = found.failed(warnings_as_errors=asked.warnings_as_errors)
    exit_code = FOUND if failed else run.exit_code_without_findings
    if asked.json:
        write_report(asked.json, as_json(run, asked.gpu, found, exit_code, folders))
    if asked.sarif:
        write_report(asked.sarif, as_sarif(run, found, folders))
    print(describe(run, asked.gpu, profile=asked.profile, findings=found), file=sys.stderr)
    return exit_code


def _flags(asked: argparse.Namespace) -> list[str]:
    """Options of the command line as nvcc takes them."""
    flags = [f"-{letter}{value}" for letter in "IDLlO" for value in getattr(asked, letter)]
    flags += [f"-std={asked.std}"] if asked.std else []
    flags += [f"-arch={asked.gpu_architecture}"] if asked.gpu_architecture else []
    return [*flags, *asked.flag]
