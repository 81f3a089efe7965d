"""The two C programs of a recording, compiled on first use: the recorder, and a task's stub.

The stub calls a launcher of the task's contract; it is generated from the contract.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import parameters
from astra_chat.tools.types import sha256_of
from astra_chat.tools.virtual_gpu.adapter import HEADER, header_text
from astra_vgpu.ground.cache import cache_folder, in_cache, new_entry, room_in
from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.toolkit import Toolkit

COMPILE_TIMEOUT_S = 120.0
_FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O1", "-w", "-fvisibility=hidden")
_RECORDER_FLAGS = (
    *_FLAGS,
    "-Wl,--export-dynamic",
    "-Wl,--no-as-needed",
    "-ldl",
    "-lstdc++",
    "-lm",
    "-lgcc_s",
)
"""--export-dynamic: the program's CUDA calls come before those of the fake runtime. Libraries that
a candidate's needs are there before it is loaded."""
_STUB_FLAGS = (*_FLAGS, "-fPIC", "-shared")


def ensure_recorder(toolkit: Toolkit) -> Path:
    """The recorder program. Raises MissingDependency where it cannot be compiled."""
    sources = {
        path.name: path.read_text()
        for path in files("astra_chat.tools.plan.recorder").iterdir()
        if path.name.endswith((".c", ".h"))
    }
    sources[HEADER] = header_text()
    return _compiled(toolkit, sources, "recorder", _RECORDER_FLAGS)


def ensure_stub(task: Task, toolkit: Toolkit) -> Path:
    """The library with the task's stub. Raises MissingDependency where it cannot be compiled."""
    return _compiled(toolkit, {"stub.c": stub_source(task)}, "stub.so", _STUB_FLAGS)


def stub_source(task: Task) -> str:
    """C: `int astra_call(void *launcher, const uint64_t *words)`, which gives the cudaError_t.

    A word for each parameter of the contract, in its order; the value lies in the low bytes.
    """
    kinds = [kind.replace("cudaStream_t", "void*") for kind, _ in parameters(task)]
    values = ", ".join(f"*({kind} const *)&words[{i}]" for i, kind in enumerate(kinds))
    return (
        "#include <stdbool.h>\n#include <stdint.h>\n"
        '__attribute__((visibility("default")))\n'
        "int astra_call(void *launcher, const uint64_t *words) {\n"
        f"    return ((int (*)({', '.join(kinds)}))launcher)({values});\n"
        "}\n"
    )


def _compiled(toolkit: Toolkit, sources: dict[str, str], output: str, flags: Sequence[str]) -> Path:
    units = [word for name in sources if name.endswith(".c") for word in ("-x", "c", name)]
    command = [
        str(toolkit.cxx),
        "-I",
        str(toolkit.include_dir),
        *units,
        "-x",
        "none",
        "-fno-strict-aliasing",
        *flags,
        "-o",
        output,
    ]
    texts = [f"{name}\0{text}" for name, text in sorted(sources.items())]
    folder = cache_folder("plans")
    final = folder / sha256_of("\0".join([toolkit.version, *command, *texts]))[:32]
    if not in_cache(final):
        with room_in(folder), new_entry(final) as scratch:
            for name, text in sources.items():
                (scratch / name).write_text(text)
            _run(command, scratch)
    return final / output


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILE_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise MissingDependency(
            f"compiler {command[0]} not found: install one: apt-get install g++"
        ) from None
    except subprocess.TimeoutExpired:
        raise MissingDependency(
            f"{command[0]} did not finish within {COMPILE_TIMEOUT_S:.0f} s"
        ) from None
    if done.returncode:
        log = "\n".join(done.stderr.splitlines()[:8])
        raise MissingDependency(f"{command[0]} cannot build the plan recorder:\n{log}")
