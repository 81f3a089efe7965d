"""The process that a whole program runs in: `python -m ...worker REQUEST`, see run_program.py.

Standard output and error are the program's. What it launched is appended to the file `report`, one
JSON object a line, so that it is there when the program exits or dies.
"""

from __future__ import annotations

import ctypes
import json
import resource
import sys
from pathlib import Path
from typing import Any, TextIO

from astra_chat.tools.gpu_specs import spec
from astra_chat.tools.virtual_gpu.gpu import VirtualGpu
from astra_chat.tools.virtual_gpu.memory.page_guard import GuardedMemory
from astra_chat.tools.virtual_gpu.memory.uninitialized_reads import warnings_of
from astra_chat.tools.virtual_gpu.model.estimate import Estimate
from astra_chat.tools.virtual_gpu.programs.program_host import ProgramHost
from astra_chat.tools.virtual_gpu.ptx.parser import PtxSyntaxError
from astra_chat.tools.virtual_gpu.runtime.calls import CallUnsupported
from astra_chat.tools.virtual_gpu.types import LaunchReport


def main(request: dict[str, Any]) -> int:
    """Runs the program; its exit code."""
    if limit := request["memory_bytes"]:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with Path(request["report"]).open("w") as report:
        return _run(request, report)


def _run(request: dict[str, Any], report: TextIO) -> int:
    def say(**what: Any) -> None:
        print(json.dumps(what), file=report, flush=True)

    warned: set[str] = set()

    def launched(done: LaunchReport, launch_estimate: Estimate) -> None:
        launch = done.launch
        for where, message in warnings_of([done]).items():
            if where not in warned:
                warned.add(where)
                say(what="warning", message=message)
        say(
            what="launch", kernel=launch.kernel, grid=[launch.grid.x, launch.grid.y, launch.grid.z],
            block=[launch.block.x, launch.block.y, launch.block.z], estimated_us=launch_estimate.us,
            limiter=launch_estimate.limiter, why=launch_estimate.why, counters=vars(done.counters),
        )  # fmt: skip

    def stopped(message: str, unsupported: bool) -> None:
        say(what="refused" if unsupported else "fault", message=message)

    gpu = VirtualGpu(
        spec(request["gpu"]), sample_instructions=None, engine=request["engine"], prints=True
    )
    library = Path(request["library"])
    try:
        runtime = ctypes.CDLL(request["runtime"])
        host = ProgramHost(
            gpu, GuardedMemory(runtime), launched, stopped,
            keep_going=request["keep_going"],
        )  # fmt: skip
        gpu.use(host)
        resources = {kernel: tuple(v) for kernel, v in request["resources"].items()}
        program = gpu.load(library, Path(request["ptx"]), resources)
    except (CallUnsupported, PtxSyntaxError) as error:
        say(what="refused", message=str(error))
        return 3
    if not hasattr(program, "main"):
        say(what="refused", message="the program has no main()")
        return 2
    libc = ctypes.CDLL(None)

    def ended(code: int, _: Any) -> None:
        say(what="exit", code=code, leaked=list(host.unfreed.values()), notes=dict(gpu.notes))

    # A program may call exit() too.
    at_exit = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(ended)
    libc.on_exit(at_exit, None)
    argv = [w.encode() for w in request["arguments"]]
    argv_array = (ctypes.c_char_p * (len(argv) + 1))(*argv, None)
    sys.stdout.flush()
    code = program.main(len(argv), argv_array)
    libc.exit(code)
    return int(code)


if __name__ == "__main__":
    raise SystemExit(main(json.loads(Path(sys.argv[1]).read_text())))
