"""The virtual GPU inside a program that `nvcc_command` linked: its first CUDA call starts it here.

ASTRA_VGPU_GPU and ASTRA_VGPU_OPTIONS (those of `run` that are about running and reporting) say how.
"""

from __future__ import annotations

import argparse
import atexit
import ctypes
import os
import re
import shlex
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from astra_vgpu.ground.errors import AstraError, failure
from astra_vgpu.ground.gpu_specs import DEFAULT_GPU
from astra_vgpu.programs.recording import Recording
from astra_vgpu.programs.run_command import (
    accepted,
    add_report_options,
    report,
)
from astra_vgpu.programs.run_program import run_of
from astra_vgpu.runtime.cudart_build import LIBRARY

GPU, OPTIONS = "ASTRA_VGPU_GPU", "ASTRA_VGPU_OPTIONS"
_kept: list[Any] = []
"""What C points to."""


def start() -> None:
    """Attach a virtual GPU to this process, and report when it ends."""
    try:
        _start(_options())
    except (AstraError, OSError) as error:
        message, code = failure(error)
        _exit(code, f"virtual GPU: {message}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=OPTIONS, add_help=False, allow_abbrev=False)
    add_report_options(parser)
    parser.set_defaults(gpu=os.environ.get(GPU, DEFAULT_GPU))
    try:
        return parser.parse_args(shlex.split(os.environ.get(OPTIONS, "")))
    except SystemExit as error:
        _exit(int(error.code or 0), "")
        raise


def _start(asked: argparse.Namespace) -> None:
    suppressions = accepted(asked)
    rows: list[Mapping[str, Any]] = []

    def say(row: Mapping[str, Any]) -> None:
        rows.append(row)
        if row["what"] in ("fault", "refused"):  # the program may die of it
            print(f"virtual GPU: {row['message']}", file=sys.stderr, flush=True)

    recording = Recording(
        ctypes.CDLL(_runtime()),
        say,
        gpu=asked.gpu,
        engine=asked.engine,
        keep_going=asked.keep_going,
    )
    owner = os.getpid()

    def ended(code: int, _: Any) -> None:
        if os.getpid() != owner:  # a child that never called CUDA itself
            return
        try:
            recording.end(code)
            result = report(run_of(rows, code), asked, suppressions, [Path.cwd()])
        except AstraError as error:
            _exit(error.exit_code, f"virtual GPU: {error}")
        except BaseException:  # nothing may cross C
            _exit(3, traceback.format_exc())
        else:
            if result != code:
                _exit(result, "")

    if sys.orig_argv:  # a Python process: when C would call, the interpreter is gone
        atexit.register(ended, 0, None)
        return
    at_exit = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(ended)
    _kept.extend((recording, at_exit))
    ctypes.CDLL(None).on_exit(at_exit, None)


def _runtime() -> str:
    """The fake runtime that this process has loaded."""
    maps = Path("/proc/self/maps").read_text()
    return str(re.findall(rf"\s(/\S*/{re.escape(LIBRARY)})$", maps, re.MULTILINE)[0])


def _exit(code: int, message: str) -> None:
    if message:
        print(message, file=sys.stderr)
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)
    os._exit(code)
