"""The command `run`: its options, the program's run, and its reports."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from astra_chat.tools.gpu_specs import DEFAULT_GPU, SPECS
from astra_chat.tools.virtual_gpu.programs.report_files import as_json, as_sarif, write_report
from astra_chat.tools.virtual_gpu.programs.report_text import describe
from astra_chat.tools.virtual_gpu.programs.run_program import FOUND, TIMEOUT_S, run_program
from astra_chat.tools.virtual_gpu.programs.suppressions import Sorted, read_suppressions
from astra_chat.tools.virtual_gpu.types import ENGINES


def add_options(run: argparse.ArgumentParser) -> None:
    run.add_argument("program", type=Path, help="a .cu file; after --, the program's arguments")
    run.add_argument("--gpu", default=DEFAULT_GPU, help=f"GPU to estimate for: {', '.join(SPECS)}")
    run.add_argument("--engine", choices=ENGINES, default="auto")
    run.add_argument(
        "--profile", action="store_true", help="print counters and estimated times by kernel"
    )
    run.add_argument("--flag", action="append", default=[], help="a flag for nvcc, as --flag=-DN=4")
    run.add_argument("--timeout", type=float, default=TIMEOUT_S, metavar="S")
    run.add_argument(
        "--keep-going", action="store_true", help="run on after a finding, and report all of them"
    )
    run.add_argument("--suppressions", type=Path, metavar="FILE", help="findings to accept (TOML)")
    run.add_argument("--warnings-as-errors", action="store_true", help="exit code 1 for warnings")
    run.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    run.add_argument("--sarif", type=Path, metavar="FILE", help="write findings as SARIF 2.1.0")


def run_command(asked: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Exit code: 1 if there are findings, 3 if something is not supported, else the program's."""
    suppressions = read_suppressions(asked.suppressions) if asked.suppressions else ()
    run = run_program(
        asked.program, arguments, gpu=asked.gpu, engine=asked.engine, flags=asked.flag,
        timeout_s=asked.timeout, keep_going=asked.keep_going,
    )  # fmt: skip
    found = Sorted.of(run.findings, suppressions)
    failed = found.failed(warnings_as_errors=asked.warnings_as_errors)
    exit_code = FOUND if failed else run.exit_code_without_findings
    folders = [asked.program.parent]
    if asked.json:
        write_report(asked.json, as_json(run, asked.gpu, found, exit_code, folders))
    if asked.sarif:
        write_report(asked.sarif, as_sarif(run, found, folders))
    print(describe(run, asked.gpu, profile=asked.profile, findings=found), file=sys.stderr)
    return exit_code
