"""Builds candidates with nvcc: one ninja graph, one nvcc call per candidate, a content-hash cache.

One call yields the .so, the PTX, the cubin, the object and ptxas' report: internal names carry a
hash of the call, so PTX and .so of two calls would not match.

nvcc's errors name the author's lines, and ptxas reports on each kernel.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from astra_chat.tools.build import extension_headers
from astra_chat.tools.build.bound_launcher import launcher_text, needs_launcher
from astra_chat.tools.build.preprocessed import keep_expanded
from astra_chat.tools.cpp_tokens import Lexer, WrittenToken
from astra_chat.tools.language import is_triton
from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.cores import cores
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import StepTimeout, Stop, run_limited
from astra_chat.tools.task.folder import Task
from astra_chat.tools.triton.translated import translated
from astra_chat.tools.types import BuildFailed, Device, Refused, Resources, TimedOut, sha256_of
from astra_vgpu.ground.cache import cache_folder, in_cache, new_entry, room_in
from astra_vgpu.ground.errors import BadInput, MissingDependency
from astra_vgpu.ground.toolkit import Toolkit, find_ninja, find_tool, find_toolkit

BUILD_TIMEOUT_S = 180.0
"""Processor time of each of a build's processes, unless the task says: an overloaded machine takes
longer over it."""
WAITING = 3
"""Limits of time of each round of builds till a graph ends that does not use its processor time."""
OUT_OF_TIME, CPU_LIMIT = 128 + signal.SIGXCPU, "CPU time limit exceeded"
"""How nvcc ends, and what g++ says before it ends otherwise."""
BUILD_MEMORY_BYTES = 12 * 2**30
BUILD_FILE_BYTES = 2**30
COMPILER_THREADS, SPLITTING_NVCC = 8, (12, 4)
"""Threads of -split-compile, and the first nvcc that has it. A fixed number makes the output of one
nvcc the same on every machine; the machine code of the shipped kernels is the same without it."""
MIN_FREE_BYTES = 2**20
"""Free disk space below which a failed build says nothing about the kernel."""
LOG_BYTES = 2**22
TIMES = "times"
"""The shell's report of the processor time that nvcc took, beside what is kept."""
_MINUTES = re.compile(r"(\d+)m([\d.]+)s")
KEPT = (
    "kernel.cu",
    "kernel.so",
    "kernel.ptx",
    "kernel.cubin",
    "kernel.o",
    "nvcc.log",
    "kernel.host.i",
    "kernel.device.i",
)

STANDARD_FOLDER = "standard"
"""Folder of our standard headers, beside the source; searched before the compiler's own headers."""
STANDARD_HEADERS = {
    f"{STANDARD_FOLDER}/iostream": """#pragma once
#include <istream>
#include <ostream>
namespace std {
extern istream cin;
extern ostream cout, cerr, clog;
extern wistream wcin;
extern wostream wcout, wcerr, wclog;
}
"""
}
"""Texts of headers that bring no code of their own, by path relative to the source's folder. Before
GCC 13, <iostream> puts an object into every file that includes it, whose constructor runs when the
library is loaded. cub's and thrust's headers include it (block_load.cuh does), so every kernel that
uses them would have host code that runs at load, which the audit refuses."""
ZEROED_VARIABLES = "-ftrivial-auto-var-init=zero"
"""The host compiler's flag by which variables that a function leaves unset are zeros. Functions of
the host fill a struct of parameters in part and pass all of it to a kernel: what was on the stack
before would be in the launch, which then differs from call to call."""


@dataclass(frozen=True)
class Build:
    """A built candidate: a folder of the cache."""

    folder: Path
    """kernel.cu in it is the source as nvcc got it (built_text below)."""
    resources: tuple[Resources, ...]
    cached: bool
    seconds: float
    source: str = ""
    """The author's text; of a Triton candidate its CUDA text."""

    @property
    def cpu_s(self) -> float:
        """Processor time of nvcc and all that it ran; 0 where a cache does not say."""
        path = self.folder / TIMES
        lines = path.read_text().splitlines() if path.is_file() else []
        return sum(60 * int(m) + float(s) for m, s in _MINUTES.findall(lines[-1] if lines else ""))

    @property
    def library(self) -> Path:
        return self.folder / "kernel.so"

    @property
    def ptx(self) -> Path:
        return self.folder / "kernel.ptx"

    @property
    def cubin(self) -> Path:
        return self.folder / "kernel.cubin"

    @property
    def object(self) -> Path:
        return self.folder / "kernel.o"

    def expanded(self, side: Literal["host", "device"]) -> str:
        """The candidate's own lines as that compiler read them, macros expanded.

        Raises MissingDependency where this nvcc leaves no such file.
        """
        path = self.folder / f"kernel.{side}.i"
        if not path.is_file():
            raise MissingDependency(
                "nvcc did not keep the preprocessed source: use CUDA 12.0 or newer"
            )
        return path.read_text()


def build(
    task: Task, source: str, device: Device, stop: Stop | None = None
) -> Build | BuildFailed | TimedOut:
    """Build one candidate. Raises MissingDependency without nvcc, nvdisasm, a host compiler or
    ninja."""
    return build_all(task, [source], device, stop)[0]


def require_build(result: Build | BuildFailed | TimedOut, what: str) -> Build:
    """The build of a kernel that is not the candidate's, such as a baseline: where there is none,
    that is no fault of a kernel to be judged. Raises BadInput, which names `what`."""
    if isinstance(result, Build):
        return result
    why = result.log if isinstance(result, BuildFailed) else "nvcc took too long"
    raise BadInput(f"{what} does not build: {why}")


def build_all(
    task: Task,
    sources: Sequence[str],
    device: Device,
    stop: Stop | None = None,
    headers: Sequence[Path] = (),
    launchers: bool = True,
) -> list[Build | BuildFailed | TimedOut]:
    """Build candidates in parallel, in one ninja graph; what the cache holds is not built again.

    `headers` are folders that the task's flags name with -I, for our own sources that include
    another project's headers; no candidate gets any. The cache does not see their content.
    `launchers`: whether the launcher of a [binding] is added to sources that lack it.

    A source in Triton is built as its CUDA text (triton/translated.py). What is built, and what the
    cache goes by, is each source as the guard reads it
    (built_text below); a source that cannot be read in one way only is a BuildFailed.
    """
    start = time.monotonic()
    toolkit = find_toolkit()
    command = nvcc_command(task, device, toolkit)
    folder = cache_folder("builds")
    own = {
        **{
            name: text if task.binding else header_text(text)
            for name, text in task.header_texts().items()
        },
        **STANDARD_HEADERS,
        **(extension_headers.header_texts() if task.binding else {}),
    }
    find_tool("nvdisasm")  # an audit needs it (disassembly.py): say so before anything is built
    key = [*KEPT, toolkit.version, *command, *(w for item in own.items() for w in item)]
    stop = stop or Stop()
    written = [_written(task, source, launchers, device, stop) for source in sources]
    finals = [folder / sha256_of("\0".join([*key, text.built]))[:32] for text in written]
    pairs = list(zip(finals, written, strict=True))
    failures: dict[Path, BuildFailed | TimedOut] = {f: s.unread for f, s in pairs if s.unread}
    missing = {f: s for f, s in pairs if not s.unread and not in_cache(f)}
    if missing:
        with (
            room_in(folder),
            tempfile.TemporaryDirectory(prefix=".graph-", dir=folder) as scratch,
        ):
            sandbox = compiler_sandbox(Path(scratch), headers)
            limit_s = task.build_timeout_s or BUILD_TIMEOUT_S
            failures |= _build_missing(missing, own, command, sandbox, stop, limit_s)
    seconds = time.monotonic() - start
    return [
        failures[final] if final in failures else _read(final, text, final not in missing, seconds)
        for final, text in pairs
    ]


@dataclass(frozen=True)
class _Written:
    """A source and what nvcc gets of it, or why it gets nothing."""

    author: str
    built: str
    unread: BuildFailed | TimedOut | None = None


def _written(task: Task, source: str, launchers: bool, device: Device, stop: Stop) -> _Written:
    if is_triton(source):
        text = translated(source, task, device.arch, stop)
        if isinstance(text, Refused):
            text = BuildFailed(log="\n".join(f"line {f.line}: {f.what}" for f in text.findings))
        if not isinstance(text, str):
            return _Written(source, source, text)
        source = text
    try:
        own = launcher_text(task, source) if launchers and needs_launcher(task, source) else ""
        trusted = task.binding and source == task.baseline
        return _Written(source, (source if trusted else built_text(source)) + own)
    except Unreadable as why:
        return _Written(source, source, BuildFailed(log=str(why)))


def nvcc_command(task: Task, device: Device, toolkit: Toolkit) -> list[str]:
    """nvcc and all its flags; the same for baseline and candidates.

    The library is linked with the fake runtime, on both devices: its host code is recorded, and
    only its device code runs (tools/plan).

    Without warnings (-w): their text may be the source's, as in [[deprecated("...")]], and would be
    mixed with what ptxas reports.
    """
    number = device.arch.removeprefix("sm_")
    command = [
        str(toolkit.nvcc),
        *task.flags,
        f"-gencode=arch=compute_{number},code=[{device.arch},compute_{number}]",
        "-w",
        "-lineinfo",
        "-Xptxas=-v",
        "-shared",
        "-Xcompiler=-fPIC",
        f"-ccbin={toolkit.cxx}",
        *((*extension_headers.FLAGS, "-Xlinker=-zlazy") if task.binding else ()),
        *(f"-I{folder}" for folder in task.include),
        *(_zeroed_variables(toolkit.cxx) if task.binding else ()),
        f"-I{toolkit.include_dir}",
        "-isystem",
        STANDARD_FOLDER,
    ]
    splits = tuple(map(int, toolkit.version.split(".")[:2])) >= SPLITTING_NVCC
    if device.kind == "cuda" and splits:
        command.append(f"-split-compile={COMPILER_THREADS}")
    from astra_chat.tools.virtual_gpu.adapter import ensure_runtime

    fake = ensure_runtime(toolkit.cxx, toolkit.include_dir, cache_folder("virtual-gpu"))
    return [*command, "-cudart=none", f"-L{fake}", "-lvcudart"]


@cache
def _zeroed_variables(cxx: Path) -> tuple[str, ...]:
    """The flag for nvcc; none where the compiler does not know it: g++ does since 12, clang since
    16."""
    command = [str(cxx), ZEROED_VARIABLES, "-E", "-x", "c++", "/dev/null"]
    known = subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
    return (f"-Xcompiler={ZEROED_VARIABLES}",) if known else ()


def _build_missing(
    missing: dict[Path, _Written],
    headers: dict[str, str],
    command: list[str],
    sandbox: SandboxPolicy,
    stop: Stop,
    limit_s: float,
) -> dict[Path, BuildFailed | TimedOut]:
    """One graph for all; successful builds move into the cache, failures are returned. Where the
    graph as a whole takes too long or too much memory, what it left is built one by one: one
    candidate takes nothing from the others."""
    scratch = sandbox.write[0]
    entries = _write_graph(scratch, missing, headers, command, limit_s)
    rounds, ended = -(-len(missing) // cores()), True
    try:
        done = run_limited(
            [str(find_ninja()), "-k", "0", "--quiet"],
            timeout_s=WAITING * rounds * limit_s,
            sandbox=sandbox,
            cwd=scratch,
            stop=stop,
        )
    except (StepTimeout, StepMemory):
        ended = False
    full = shutil.disk_usage(scratch).free < MIN_FREE_BYTES
    late = TimedOut(step="build", limit_s=limit_s)
    failures, left = dict[Path, BuildFailed | TimedOut](), dict[Path, _Written]()
    for final, entry in entries.items():
        status, log = (_text(entry / name) for name in ("status", "nvcc.log"))
        if status == "0":
            _publish(entry, final)
        elif status == str(OUT_OF_TIME) or CPU_LIMIT in log:
            failures[final] = late
        elif ended and full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        elif ended:
            said = readable_log(log or done.output, missing[final].author)
            failures[final] = BuildFailed(log=said)
        else:
            left[final] = missing[final]
        shutil.rmtree(entry)
    if len(missing) == 1:
        return failures | dict.fromkeys(left, late)
    for final, source in left.items():
        one = {final: source}
        failures |= _build_missing(one, headers, command, sandbox, stop, limit_s)
    return failures


def _write_graph(
    scratch: Path,
    missing: dict[Path, _Written],
    headers: dict[str, str],
    command: list[str],
    limit_s: float,
) -> dict[Path, Path]:
    """A build.ninja, and a folder for each candidate."""
    call = shlex.join(command).replace("$", "$$")
    graph = [
        "rule nvcc",
        # __TIME__ is the same at any hour: the same source gives the same kernel.
        f"  command = cd $dir && {{ ulimit -S -t {limit_s:.0f} 2>/dev/null || true; }} &&"
        f" if SOURCE_DATE_EPOCH=0 {call} -keep -keep-dir . -o kernel.so kernel.cu >nvcc.log 2>&1;"
        f" then times >{TIMES}; echo 0 >status; else echo $$? >status; false; fi",
    ]
    entries = {final: scratch / str(index) for index, final in enumerate(missing)}
    for entry, source in zip(entries.values(), missing.values(), strict=True):
        entry.mkdir()
        make_include_folders(command, entry)
        for name, text in {**headers, "kernel.cu": source.built}.items():
            (entry / name).parent.mkdir(parents=True, exist_ok=True)
            (entry / name).write_text(text)
        graph += [f"build {entry.name}/kernel.so: nvcc {entry.name}/kernel.cu"]
        graph += [f"  dir = {entry.name}"]
    (scratch / "build.ninja").write_text("\n".join([*graph, ""]))
    return entries


def make_include_folders(command: Sequence[str], folder: Path) -> None:
    """Makes the folders of a command's -I: ".." leads out of one that has no file, too."""
    for word in command:
        if word.startswith("-I") and not word.startswith("-I/"):
            (folder / word[2:]).mkdir(parents=True, exist_ok=True)


def compiler_sandbox(scratch: Path, headers: Sequence[Path]) -> SandboxPolicy:
    """A compiler reads the toolkit and the system's headers, and writes where it works."""
    toolkit = find_toolkit()
    places = [
        toolkit.root,
        toolkit.include_dir,
        toolkit.lib_dir,
        toolkit.cxx,
        find_ninja(),
        find_tool("nvdisasm"),
    ]
    return SandboxPolicy(
        read=(
            *places,
            *(place.resolve() for place in places),
            cache_folder("virtual-gpu"),
            *headers,
        ),
        write=(scratch,),
        memory_bytes=BUILD_MEMORY_BYTES,
        file_bytes=BUILD_FILE_BYTES,
    )


def _publish(entry: Path, final: Path) -> None:
    for cubin in entry.glob("kernel.sm_*.cubin"):
        cubin.rename(entry / "kernel.cubin")
    keep_expanded(entry)
    with new_entry(final) as scratch:
        for name in (*KEPT, TIMES):
            if (entry / name).is_file():
                (entry / name).rename(scratch / name)


def _read(folder: Path, written: _Written, cached: bool, seconds: float) -> Build:
    resources = parse_ptxas(_log(folder / "nvcc.log"))
    return Build(folder, resources, cached, seconds, written.author)


def _log(path: Path) -> str:
    """The first LOG_BYTES of a file as text: a template's name alone can fill a disk."""
    with path.open("rb") as file:
        return file.read(LOG_BYTES).decode(errors="replace")


def _text(path: Path) -> str:
    """Text of a file as `_log` reads it, without newlines at its end; "" where there is no file."""
    return _log(path).rstrip("\n") if path.is_file() else ""


LOG_LINES = 40
LOG_COLUMNS = 300


def readable_log(log: str, source: str) -> str:
    """nvcc's errors with the source line each one names, once; warnings and noise cut away."""
    lines = source.split("\n")
    said, shown = log.splitlines(), list[str]()
    for line, following in zip_longest(said, said[1:], fillvalue=""):
        if re.match(r"^(ptxas info|nvcc info|\d+ errors? detected|Remark)", line.strip()):
            continue
        named = re.match(r"^kernel\.cu\((\d+)\): (.*)", line)
        shown.append(f"line {named[1]}: {named[2]}" if named else line)
        text = lines[int(named[1]) - 1].strip() if named and int(named[1]) <= len(lines) else ""
        if text and following.strip() != text:
            shown.append(f"    {text}")
    first = next((i for i, text in enumerate(shown) if "error" in text.lower()), 0)
    cut = [_cut(text) for text in shown[first:] if text.strip()][:LOG_LINES]
    return "\n".join(cut) or "nvcc failed without a message"


def _cut(line: str) -> str:
    return line if len(line) <= LOG_COLUMNS else line[:LOG_COLUMNS] + " ..."


_PTXAS = re.compile(
    r"^ptxas info\s*: Compiling entry function '(?P<kernel>\S+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.DOTALL | re.MULTILINE,
)


def parse_ptxas(log: str) -> tuple[Resources, ...]:
    """Registers, shared memory and spills of every kernel, from `ptxas -v`."""
    kernels = []
    for match in _PTXAS.finditer(log):
        shared = re.search(r"(\d+) bytes smem", match["rest"])
        kernels.append(
            Resources(
                kernel=match["kernel"],
                registers=int(match["registers"]),
                static_shared_bytes=int(shared[1]) if shared else 0,
                spill_bytes=int(match["stores"]) + int(match["loads"]),
                stack_bytes=int(match["stack"]),
            )
        )
    return tuple(kernels)


# The text that a compiler gets: written from the tokens that the guard has read.
#
# A compiler and the guard could read one source differently: where a literal ends, what a comment
# hides, which blank is a blank. So the source itself is never compiled. Its tokens are written
# again:
#
# - Comments become blanks. Each line keeps its number, and as far as no blank is added its columns,
#   so that errors, line tables and profiles name the author's lines.
# - Two tokens that touch in the source are separated by a blank wherever another reader could join
#   them: beside literals, and where a digraph stood.
# - All else that touches goes on doing so, as #define F(x) and what the # operator makes of an
#   argument (the text of an assertion) depend on it. There every reader must end the first token:
#   neither a name nor a number holds punctuation in this place (the lexer would have taken it in),
#   and of a run of punctuation only a comment or a literal could be more than punctuation.
#
# What is written reads as the same tokens, and is written as itself again.

MOST_SAID = 20
_GAP = re.compile(r"(?P<blank>[ \t\r]+)|(?P<block>/\*.*?\*/)|//[^\n]*|\n", re.DOTALL)
_SPLICE = re.compile(r"\\[ \t\f\v]*\r?\n")
_SPLICED = "\\\n"
_TRAILING = re.compile(r"[ \t]+\n")
_NO_MESSAGE = re.compile(r"[^\w .,:;=()-]", re.ASCII)
"""What could open a literal or a comment in the text of an #error."""


class Unreadable(ValueError):
    """The source cannot be read as C++ in one way only; the text says where and why."""


@lru_cache(maxsize=64)
def built_text(source: str) -> str:
    """The source as its compiler gets it. Raises Unreadable; the guard refuses such a source."""
    lexer = Lexer(source)
    if bad := [token for token in lexer.run() if token.kind == "bad"]:
        raise Unreadable("\n".join(f"line {token.line}: {token.text}" for token in bad[:MOST_SAID]))
    return _Writer(lexer).text()


def header_text(text: str) -> str:
    """A header of a task as a compiler gets it. What cannot be read in one way is left as it is: no
    candidate writes it."""
    try:
        return built_text(text)
    except Unreadable:
        return text


class _Writer:
    """Writes a lexer's pieces, and between two of them what the gap in the source becomes."""

    def __init__(self, lexer: Lexer) -> None:
        self._source, self._spliced, self._origin = lexer.source, lexer.text, lexer.origin
        self._pieces = lexer.pieces

    def text(self) -> str:
        written: list[str] = []
        before: WrittenToken | None = None
        for piece in self._pieces:
            spelt = _spelt(piece)
            written += [self._gap(before, piece), spelt]
            start, end = self._origin[piece.start], self._behind(piece.end)
            if end - start != piece.end - piece.start:  # there are splices in it
                lines = self._source.count("\n", start, end) - spelt.count("\n")
                written.append(_SPLICED * lines)
            before = piece
        written.append(self._gap(before, None).rstrip())
        return "".join(written).rstrip("\n") + "\n"

    def _behind(self, end: int) -> int:
        """Index in the source behind the last character of a piece that ends at `end`."""
        return self._origin[end - 1] + 1 if end else 0

    def _gap(self, before: WrittenToken | None, after: WrittenToken | None) -> str:
        """Blanks, line ends and, where tokens of one logical line stand on two, splices."""
        start, end = before.end if before else 0, after.start if after else len(self._spliced)
        if start == end:
            joint = " " if before and after and _joins(before, after) else ""
            return self._rest(start, after) + joint
        plain = self._source[self._behind(start) : self._origin[after.start]] if after else ""
        if plain and not plain.strip(" \t"):
            return plain
        parts = list(_GAP.finditer(self._spliced, start, end))
        breaks = [at for at, part in enumerate(parts) if part[0] == "\n"]
        first, last = (breaks[0], breaks[-1]) if breaks else (len(parts), -1)
        texts: list[str] = []
        cursor = self._behind(start)
        for at, part in enumerate(parts):
            reached = self._behind(part.end())
            inside = before is not None and at < first and after is not None and at > last
            texts.append(_part_text(part, self._source[cursor:reached], inside))
            cursor = reached
        return _TRAILING.sub("\n", "".join(texts)) + self._rest(end, after)

    def _rest(self, end: int, after: WrittenToken | None) -> str:
        """The splices right before a piece."""
        if after is None:
            return ""
        return _SPLICED * self._source.count("\n", self._behind(end), self._origin[after.start])


def _part_text(part: re.Match[str], source: str, inside: bool) -> str:
    """What a blank, a comment or a line end becomes, whose text in the source is `source`, with the
    splices before it. `inside`: tokens of the same logical line stand before and behind it."""
    if part["blank"] is not None:
        return _SPLICE.sub(lambda _: _SPLICED, source).replace("\r", "")
    if part["block"] is not None:
        lines = (" " * len(line.encode()) for line in source.split("\n"))
        return (_SPLICED if inside else "\n").join(lines)
    return "\n" * source.count("\n")


def _spelt(piece: WrittenToken) -> str:
    if piece.kind == "string":
        return piece.text.replace("\r\n", "\n")
    return _NO_MESSAGE.sub(" ", piece.text) if piece.kind == "text" else piece.text


def _joins(before: WrittenToken, after: WrittenToken) -> bool:
    """Whether a reader could take two tokens that touch for others."""
    if any(p.kind == "punct" and len(p.text) < p.end - p.start for p in (before, after)):
        return True  # a digraph, which is written as what it stands for
    if before.kind == "punct":
        return (before.text, after.text[0]) == (".", ".") and after.kind == "number"
    return after.kind != "punct"
