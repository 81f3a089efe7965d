"""The process that a whole program runs in: `python -m ...worker REQUEST`, see run_program.py.

Standard output and error are the program's. What it launched is appended to the file `report`, one
JSON object a line, so that it is there when the program exits or dies.
"""

from __future__ import annotations

import ctypes
import json
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from astra_vgpu.programs.recording import Recording
from astra_vgpu.runtime.calls import CallUnsupported
from astra_vgpu.runtime.cudart_binding import missing_call


def main(request: dict[str, Any]) -> int:
    """Runs the program; its exit code."""
    if limit := request["memory_bytes"]:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with Path(request["report"]).open("w") as report:
        return _run(request, report)


def _run(request: dict[str, Any], report: TextIO) -> int:
    def say(row: Mapping[str, Any]) -> None:
        print(json.dumps(row), file=report, flush=True)

    recording = Recording(
        ctypes.CDLL(request["runtime"]),
        say,
        gpu=request["gpu"],
        engine=request["engine"],
        keep_going=request["keep_going"],
    )
    name = request["arguments"][0]
    try:
        program = ctypes.CDLL(request["library"], mode=ctypes.RTLD_LOCAL)
    except OSError as error:
        call = missing_call(error)
        recording.refuse(
            str(CallUnsupported(f"the CUDA call {call}", call)) if call else _why(error, name)
        )
        return 3 if call else 2
    if not hasattr(program, "main"):
        recording.refuse(f"{name}: there is no main()")
        return 2
    libc = ctypes.CDLL(None)
    # A program may call exit() too.
    at_exit = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(lambda c, _: recording.end(c))
    libc.on_exit(at_exit, None)
    argv = [w.encode() for w in request["arguments"]]
    argv_array = (ctypes.c_char_p * (len(argv) + 1))(*argv, None)
    sys.stdout.flush()
    code = program.main(len(argv), argv_array)
    libc.exit(code)
    return int(code)


def _why(error: OSError, name: str) -> str:
    """Why a program does not load, without the library's own path."""
    _, lacking, symbol = str(error).partition("undefined symbol: ")
    if not lacking:
        return f"{name}: {error}"
    return (
        f"{name}: {demangled(symbol.split(',')[0].strip())} is used and not defined; name the file"
        " or the library (-l) that has it"
    )


def demangled(symbol: str) -> str:
    """A C++ name as it is written, by the C++ runtime; the symbol where that does not know it."""
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return symbol
    demangle.restype = ctypes.c_void_p
    status = ctypes.c_int()
    text = demangle(symbol.encode(), None, None, ctypes.byref(status))
    if not text:
        return symbol
    name = ctypes.string_at(text).decode(errors="replace")
    ctypes.CDLL(None).free(ctypes.c_void_p(text))
    return name


if __name__ == "__main__":
    raise SystemExit(main(json.loads(Path(sys.argv[1]).read_text())))
