"""The process that a whole program runs in: `python -m ...worker REQUEST`, see programs.py.

Standard output and error are the program's; what it launched goes into the file `report`, a JSON
object a line, as it happens, so that it is there when the program exits or dies.
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
from astra_chat.tools.virtual_gpu.memory.uninitialized_reads import told
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

    def launched(done: LaunchReport, found: Estimate) -> None:
        launch = done.launch
        for where, words in told([done]).items():
            if where not in warned:
                warned.add(where)
                say(what="warning", words=words)
        say(
            what="launch", kernel=launch.kernel, grid=[launch.grid.x, launch.grid.y, launch.grid.z],
            block=[launch.block.x, launch.block.y, launch.block.z], estimated_us=found.us,
            limiter=found.limiter, why=found.why, counters=vars(done.counters),
        )  # fmt: skip

    def stopped(words: str, lacks: bool) -> None:
        say(what="refused" if lacks else "fault", words=words)

    gpu = VirtualGpu(
        spec(request["gpu"]), sample_instructions=None, engine=request["engine"], prints=True
    )
    library = Path(request["library"])
    try:
        runtime = ctypes.CDLL(request["runtime"])
        host = ProgramHost(gpu, GuardedMemory(runtime), launched, stopped)
        gpu.use(host)
        resources = {kernel: tuple(v) for kernel, v in request["resources"].items()}
        program = gpu.load(library, Path(request["ptx"]), resources)
    except (CallUnsupported, PtxSyntaxError) as error:
        say(what="refused", words=str(error))
        return 3
    if not hasattr(program, "main"):
        say(what="refused", words="the program has no main()")
        return 2
    libc = ctypes.CDLL(None)

    def ended(code: int, _: Any) -> None:
        say(what="exit", code=code, leaked=list(host.unfreed.values()), notes=dict(gpu.notes))

    # A program may call exit() too.
    at_exit = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(ended)
    libc.on_exit(at_exit, None)
    words = [w.encode() for w in request["arguments"]]
    arguments = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    sys.stdout.flush()
    code = program.main(len(words), arguments)
    libc.exit(code)
    return int(code)


if __name__ == "__main__":
    raise SystemExit(main(json.loads(Path(sys.argv[1]).read_text())))
