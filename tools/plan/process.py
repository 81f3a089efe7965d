"""One recorder process: its request, its walls, and what its end means.

A recording needs two C programs, compiled on first use: the recorder, and a task's stub, which is
generated from the contract and calls its launcher.
"""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from astra_chat.tools.plan.report import (
    Denied,
    ForgedReport,
    Report,
    Touched,
    Unloadable,
    parse_report,
)
from astra_chat.tools.sandbox import seccomp
from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import Finished, Stop, run_limited, signal_name
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import parameters
from astra_chat.tools.types import sha256_of
from astra_chat.tools.virtual_gpu.adapter import (
    HEADER,
    LIBRARY,
    device_bytes,
    ensure_runtime,
    header_text,
)
from astra_vgpu.ground.cache import cache_folder, in_cache, new_entry, room_in
from astra_vgpu.ground.cubin import Cubin, CubinKernel
from astra_vgpu.ground.errors import AstraError, MissingDependency
from astra_vgpu.ground.gpu_specs import GpuSpec
from astra_vgpu.ground.toolkit import Toolkit, find_toolkit

RECORD_TIMEOUT_S = 30.0
"""Time limit of one recorder process, in s; a call of a launcher takes microseconds."""
FILE_BYTES = 32 * 2**20
"""Most bytes of the report, and of what a launcher prints."""
PRINTED_BYTES = 400
"""Most characters of what a launcher printed, in a message."""
ENV = "/usr/bin/env"
SYSTEM_CALLS = {
    "open": 2, "read": 0, "openat": 257, "clone": 56, "clone3": 435, "clock_gettime": 228,
    "nanosleep": 35, "clock_nanosleep": 230, "getrandom": 318, "unlink": 87, "mkdir": 83,
    "rt_sigaction": 13, "ioctl": 16, "getcwd": 79, "sysinfo": 99, "sched_getaffinity": 204,
    "readlink": 89, "alarm": 37, "setitimer": 38, "creat": 85, "access": 21, "pipe": 22,
}  # fmt: skip


@dataclass(frozen=True)
class Recording:
    """One call of the launcher in a recorder process."""

    index: int
    words: tuple[int, ...]
    """The launcher's arguments, as the stub takes them."""
    reserved: tuple[tuple[str, int, int], ...]
    """Name, address and bytes of each buffer."""
    stream: int
    pattern: int
    """Low byte: what the stack holds before; the rest shifts the stack."""
    state: int = 0
    """State of the host (record.py)."""


@dataclass(frozen=True)
class Surroundings:
    """What a process has of its machine."""

    environment: tuple[tuple[str, str], ...] = ()
    locale: str = "C"

    @property
    def pairs(self) -> list[str]:
        return [f"{name}={value}" for name, value in self.environment]


@dataclass(frozen=True)
class Died:
    """The process did not end well, and it is the candidate's doing."""

    index: int | None
    """The call that ran; None: before the first."""
    message: str
    refused: bool = False
    """Whether it did what no launcher may do, rather than crash."""


@dataclass(frozen=True)
class Recorder:
    """All that the processes for one build have in common."""

    task: Task
    library: Path
    """Library of the candidate, linked with the fake CUDA runtime."""
    cubin: Cubin
    spec: GpuSpec

    def run(
        self,
        variables: Mapping[str, int],
        calls: Sequence[Recording],
        stop: Stop,
        surroundings: Surroundings = Surroundings(),
    ) -> Report | Died:
        """Make these calls in one process. Raises StepTimeout, Cancelled, MissingDependency, and
        AstraError where the recorder itself fails."""
        with tempfile.TemporaryDirectory(prefix="astra-plan-") as name:
            folder = Path(name).resolve()
            (folder / "request").write_text(
                "\n".join([*self._lines(variables, calls, surroundings.locale), ""])
            )
            program = ensure_recorder(find_toolkit())
            try:
                done = run_limited(
                    [ENV, "-i", *surroundings.pairs, str(program), "request", "report", "printed"],
                    timeout_s=RECORD_TIMEOUT_S,
                    cwd=folder,
                    stop=stop,
                    sandbox=self._sandbox(folder),
                )
            except StepMemory:
                return Died(None, "the launcher used too much memory")
            return _read(folder, done, [call.index for call in calls])

    def _sandbox(self, folder: Path) -> SandboxPolicy:
        places = (self.library.parent, cache_folder("plans"), cache_folder("virtual-gpu"))
        return SandboxPolicy(read=places, write=(folder,), file_bytes=FILE_BYTES)

    def _lines(
        self, variables: Mapping[str, int], calls: Sequence[Recording], locale: str
    ) -> Iterator[str]:
        """The request, as recorder/request.c reads it: numbers are hexadecimal."""
        toolkit = find_toolkit()
        runtime = ensure_runtime(toolkit.cxx, toolkit.include_dir, cache_folder("virtual-gpu"))
        yield f"runtime {runtime / LIBRARY}"
        yield f"library {self.library}"
        yield f"stub {ensure_stub(self.task, toolkit)}"
        yield f"entry {self.task.entry}"
        yield f"locale {locale}"
        yield f"lock {int(seccomp.available())}"
        yield f"lazy {int(self.task.binding is not None)}"
        yield f"device {device_bytes(self.spec).hex()}"
        for kernel in self.cubin.kernels.values():
            yield _words("kernel", kernel.name, *_numbers(kernel))
        for name, address in variables.items():
            yield _words("variable", name, address, self.cubin.variables[name].bytes)
        for call in calls:
            reserved = [word for buffer in call.reserved for word in buffer]
            yield _words(
                "call",
                call.index,
                call.pattern,
                call.state,
                call.stream,
                len(call.reserved),
                *reserved,
                len(call.words),
                *call.words,
            )


def _numbers(kernel: CubinKernel) -> list[int]:
    places = [number for p in kernel.parameters for number in (p.offset, p.bytes)]
    return [
        kernel.registers,
        kernel.static_shared_bytes,
        kernel.max_threads,
        kernel.barriers,
        *(kernel.cluster or (0, 0, 0)),
        kernel.max_cluster,
        kernel.parameter_bytes,
        len(kernel.parameters),
        *places,
    ]


def _words(*parts: str | int) -> str:
    return " ".join(part if isinstance(part, str) else f"{part:x}" for part in parts)


def _read(folder: Path, done: Finished, expected: Sequence[int]) -> Report | Died:
    path = folder / "report"
    content = path.read_bytes()[:FILE_BYTES] if path.is_file() else b""
    try:
        report = parse_report(content, expected, whole=done.returncode == 0)
    except ForgedReport as error:
        return Died(None, f"the recorder did not write the report of its launches: {error}")
    if not report.ready:
        why = _printed(folder) or done.output.strip()[-PRINTED_BYTES:]
        raise AstraError(
            f"the plan recorder failed ({signal_name(done.returncode)}): {why or 'no message'}"
        )
    if done.returncode == 0 and len(report.calls) == len(expected):
        return report
    return _died(report, done.returncode, _printed(folder))


def _died(report: Report, returncode: int, printed: str) -> Died:
    match report.end:
        case Denied(number=number):
            what = f"the launcher made the system call {_call_name(number)}"
            return Died(
                report.started,
                (f"{what}: a launcher may only compute and launch kernels"),
                refused=True,
            )
        case Touched(name=name, offset=offset, writes=writes):
            did = "writes to" if writes else "reads"
            message = f"host code {did} device memory: {name}, offset {offset}"
            return Died(report.started, f"{message}; on a GPU this is a segmentation fault")
        case Unloadable(why=why):
            return Died(None, f"its library does not load: {why[:PRINTED_BYTES]}", refused=True)
    if returncode == -signal.SIGXFSZ:
        return Died(report.started, f"the launcher printed more than {FILE_BYTES >> 20} MiB")
    tail = f": {printed}" if printed else ""
    return Died(
        report.started, f"the launcher's process ended early, {signal_name(returncode)}{tail}"
    )


def _call_name(number: int) -> str:
    tables = (
        seccomp.OTHERS,
        seccomp.MACHINE,
        seccomp.NETWORK,
        seccomp.PROGRAMS,
        seccomp.LASTING,
        seccomp.PRIORITY,
        seccomp.ON_ITSELF,
        seccomp.ON_ITSELF_OR_0,
        seccomp.ON_A_FILE,
        SYSTEM_CALLS,
    )
    found = next((name for table in tables for name, n in table.items() if n == number), None)
    return found or f"number {number}"


def _printed(folder: Path) -> str:
    """The end of what was printed, as one line of plain characters."""
    try:
        with (folder / "printed").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - PRINTED_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "".join(c if c.isprintable() else " " for c in text).strip()


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
