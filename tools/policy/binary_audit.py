"""Audits the built object, not the source: symbols, constructors, special registers, precision.

Names can be hidden from any reader of source text (rules.py), but not from a linker. What a
launcher may link to is an allow-list, and so is what a kernel may. The audit reads the candidate's
own object, kernel.o, before the CUDA runtime is linked to it, and the cubin, its disassembly and
the PTX of the same nvcc call.

Which module variables a kernel may write to is read from its PTX; what it hides from that shows
when it runs. What a launcher keeps in its own variables shows when it is recorded (plan/record.py).

Which special registers the machine code reads, and whose source lines do, is read from nvdisasm's
text of the cubin with inlined line information. Before an instruction it names the file and line
that it comes from, then the call that this was inlined at, and so on up to the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from astra_chat.tools.build.disassembly import machine_code_of
from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.build.preprocessed import EXPANDED_BYTES
from astra_chat.tools.mangled import last_identifier
from astra_chat.tools.policy import ptx_audit, register_flow, rules
from astra_chat.tools.policy.module_state import SHARED_STATE
from astra_chat.tools.policy.ptx_audit import SOURCE
from astra_chat.tools.policy.source_guard import guard_expanded, in_short, new_findings
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Finding
from astra_chat.tools.virtual_gpu.adapter import written_variables
from astra_vgpu.ground import elf
from astra_vgpu.ground.elf import Elf

RUNTIME = re.compile(
    r"__cuda(RegisterFatBinary(End)?|UnregisterFatBinary|RegisterFunction|RegisterVar"
    r"|PushCallConfiguration|PopCallConfiguration|GetKernel|LaunchKernel|InitModule)(_ptsz)?"
)
"""What nvcc's own host code calls."""
C_LIBRARY = frozenset(
    "memcpy memset memmove memcmp strlen strcmp strncmp abort atexit __cxa_atexit __stack_chk_fail"
    " printf fprintf puts putchar fputc fwrite vfprintf stderr __printf_chk"
    " __fprintf_chk __memcpy_chk __memset_chk __assert_fail __dso_handle _GLOBAL_OFFSET_TABLE_"
    " __gxx_personality_v0 _Unwind_Resume __cxa_guard_acquire __cxa_guard_release"
    " __cxa_guard_abort __cxa_begin_catch __cxa_end_catch __cxa_rethrow"
    " __cxa_throw_bad_array_new_length __cxa_pure_virtual"
    " __tls_get_addr abs labs div ldiv exit".split()
)
"""nvcc itself calls exit, in the host's stand-ins for device functions; the guard refuses it."""
CPP_LIBRARY = re.compile(
    r"_ZSt\d+__throw_\w+|_ZN?K?St\w*(array|tuple|exception|logic_error|runtime_error)\w*|_ZSt9terminatev"
    r"|_ZTVN10__cxxabiv1\w+|_ZSt21ios_base_library_initv"
)
"""Throwing helpers and type information: what the standard's templates pull in. The last is named,
and not called, by the stream headers of GCC 13 and newer."""
ALLOCATION = re.compile(r"_Zn[wa]\w+|_Zd[la]Pv\w*|__cxa_(throw|(allocate|free)_exception)")
"""Operators new and delete, and what throws: an exception is memory of the heap too."""
TEXTS = re.compile(
    r"_Z(T[TVIS])?(NK?)?(So|Sols|St(6locale|8ios_base|9basic_ios|15basic_streambuf|16__ostream_insert"
    r"|13basic_ostream|7__cxx11(12basic_string|15basic_stringbuf|19basic_ostringstream)I))\w*"
)
"""Strings and streams into strings: Astra's headers put the texts of checks together with them, and
which of their members are inlined changes with the rest of a file."""
MATHS = re.compile(
    r"(exp2?|expm1|log2?|log10|log1p|sqrt|rsqrt|pow|sin|cos|tan|tanh|erf|fabs|floor|ceil|round|trunc"
    r"|fmod|fmin|fmax|ldexp|frexp|lround|lrint|rint|nearbyint|fma|cbrt|hypot)[fl]?l?"
)
BESIDE_LAUNCHER = "exports it in addition to the launcher"
DEVICE_LIBRARY = frozenset({"__assertfail"})
"""What a kernel may call of the driver: it prints and ends the kernel."""
DEVICE_CALLS = (
    (re.compile(r"vprintf"), "device printf keeps a buffer between calls"),
    (re.compile(r"malloc|free"), "the device's heap keeps its contents between calls"),
    (re.compile(r"_*cuda\w*"), "only the launcher may launch kernels"),
)
CONSTRUCTORS = (".init_array", ".ctors", ".preinit_array", ".fini_array", ".dtors")
OWN_CONSTRUCTOR = "_ZL24__sti____cudaRegisterAllv"
"""nvcc's registration of the kernels; the runtime needs it, nothing else runs at load."""
SECTIONS = re.compile(
    r"(\.rela)?\.(text|rodata|data|bss|init_array|eh_frame|gcc_except_table|nv_fatbin|group|comment"
    r"|nvFatBinSegment|note|symtab|strtab|shstrtab|tbss|tdata|lbss|ldata)\b.*|"
)
KINDS = (elf.NO_TYPE, elf.OBJECT, elf.FUNCTION, elf.SECTION, elf.FILE, elf.THREAD_LOCAL)
SIDES: tuple[Literal["host", "device"], ...] = ("host", "device")
SYSTEM_CALLS = (b"\x0f\x05", b"\x0f\x34", b"\xcd\x80")
"""syscall, sysenter, int 0x80."""
PTX_BYTES = 2**24
"""A candidate that unrolls to more is nobody's, unless its baseline has half as much."""
ANY_ORDER = (
    "adds floats in the order in which threads arrive, which varies from call to call, but the"
    " contract says that a row has the same bits in every batch: add in a fixed order"
)
TRIED_ONCE = (
    "may return before the phase has completed, and its result is never tested: retry in a loop"
    " until it has completed"
)
MOST_SAID = 100
"""Each is looked up in the source."""


def audit(build: Build, task: Task, source: str) -> tuple[Finding, ...]:
    """What in the built object breaks the policy, each with the source line that names it first."""
    return in_short(all_findings(build, task, source))


def audit_beside(build: Build, task: Task, source: str, baseline: Build) -> tuple[Finding, ...]:
    """What `audit` finds of a candidate that may keep some of what its baseline has
    (source_guard.guard_beside)."""
    most = max(PTX_BYTES, 2 * baseline.ptx.stat().st_size)
    own = all_findings(build, task, source, most)
    beside = any(BESIDE_LAUNCHER in finding.what for finding in own)
    known = all_findings(baseline, task, baseline.source, most) if beside or task.binding else []
    if task.binding:
        return new_findings(own, known)
    kept = {finding.what for finding in known if BESIDE_LAUNCHER in finding.what}
    return in_short(finding for finding in own if finding.what not in kept)


def all_findings(
    build: Build, task: Task, source: str, most_ptx_bytes: int = PTX_BYTES
) -> list[Finding]:
    """What `audit` finds, however much it is."""
    if (size := build.ptx.stat().st_size) > most_ptx_bytes:
        what = f"{size:,} bytes of PTX, but at most {most_ptx_bytes:,} are examined"
        return [Finding(line=1, what=what)]
    host, cubin = Elf.read(build.object), Elf.read(build.folder / "kernel.cubin")
    kernels = {s.name for s in cubin.symbols if s.other & elf.CUDA_ENTRY}
    ptx = build.ptx.read_text(errors="replace")
    remarks = [
        *_imports(host, texts=task.binding is not None),
        *_exports(host, task.entry, kernels),
        *_constructors(host),
        *_kinds(host),
        *_sections(host),
        *_system_calls(host),
        *device_calls(cubin),
        *_device_code(ptx, task),
    ]
    findings = [
        Finding(line=_line(source, name), what=f"{last_identifier(name)}: {why}")
        for name, why in remarks[:MOST_SAID]
    ]
    findings += _special_registers(build, ptx)
    for side in SIDES:
        text = build.expanded(side)
        if len(text) > EXPANDED_BYTES:
            what = f"its macros expand to more than {EXPANDED_BYTES:,} characters for the {side}"
            findings.append(Finding(line=1, what=what))
        else:
            findings += guard_expanded(text, host=side == "host")
    return findings


Said = Iterator[tuple[str, str]]
"""A symbol, section or instruction, and what is wrong with it."""


def _imports(host: Elf, *, texts: bool) -> Said:
    for name in sorted({s.name for s in host.symbols if not s.section and s.name}):
        if texts and TEXTS.fullmatch(name):
            continue
        if name in C_LIBRARY or any(p.fullmatch(name) for p in (RUNTIME, CPP_LIBRARY, MATHS)):
            continue
        plain = re.sub(r"(_v\d+|_ptsz|_ptds)+$", "", name)
        if not rules.CUDA_CALLS.fullmatch(plain):
            why = rules.refusal(plain, called=True) or "a launcher does not need it"
            if ALLOCATION.fullmatch(name):
                why = "a launcher must not allocate memory, and freed memory keeps its contents"
            yield name, f"links to it: {why}"


def _exports(host: Elf, entry: str, kernels: set[str]) -> Said:
    defined = [s for s in host.symbols if s.section and s.binding != elf.LOCAL and s.name]
    for symbol in defined:
        if re.match(r"(__)?cu(da)?[A-Z]", symbol.name):
            yield symbol.name, "defines a name of the CUDA runtime"
        elif not symbol.name.startswith(("_Z", "DW.ref.")) and symbol.name not in (entry, *kernels):
            yield symbol.name, f"{BESIDE_LAUNCHER}: make it static"
    launchers = [s for s in defined if s.name == entry and s.kind == elf.FUNCTION]
    if len(launchers) != 1 or launchers[0].binding != elf.GLOBAL:
        yield entry, "the launcher must be exported as a single plain function"


def _constructors(host: Elf) -> Said:
    """Every pointer of these sections must be nvcc's registration."""
    places = {(s.section, s.value): s.name for s in host.symbols if s.kind == elf.FUNCTION}
    for index, section in enumerate(host.sections):
        if not section.name.startswith(CONSTRUCTORS):
            continue
        for relocation in host.relocations(index):
            name = places.get(host.place(relocation), section.name)
            if name != OWN_CONSTRUCTOR:
                yield name, "host code that runs when the library is loaded or unloaded"


def _kinds(host: Elf) -> Said:
    """An indirect function is a piece of code that the loader asks which function to use."""
    for symbol in host.symbols:
        if symbol.kind not in KINDS:
            yield symbol.name, "host code that the loader runs, or a symbol of unknown kind"


def _sections(host: Elf) -> Said:
    for section in host.sections:
        if section.flags & elf.ALLOCATED and not SECTIONS.fullmatch(section.name):
            yield section.name, "a custom section"


def _system_calls(host: Elf) -> Said:
    """Bytes of a system call in the code; those that a jump's distance happens to have pass.

    They need not be where an instruction begins: a pointer can lead between.
    """
    for index, section in enumerate(host.sections):
        if section.flags & elf.EXECUTABLE:
            functions = [
                (s.value, s.value + s.size)
                for s in host.symbols
                if s.section == index and s.kind == elf.FUNCTION
            ]
            for call in SYSTEM_CALLS:
                at = section.content.find(call)
                while at >= 0:
                    if not _is_distance(section.content, at, functions):
                        why = f"its code contains {call.hex(' ')}, the bytes of a system call"
                        yield section.name, why
                        return
                    at = section.content.find(call, at + 1)


def _is_distance(code: bytes, at: int, functions: list[tuple[int, int]]) -> bool:
    """Whether the bytes are the low half of the 32-bit distance of a call to one of these functions
    or of a jump inside one of them; a constant's bytes would lead elsewhere."""
    target = at + 4 + int.from_bytes(code[at : at + 4], "little", signed=True)
    if code[at - 1] == 0xE8:
        return any(start == target for start, _ in functions)
    if code[at - 1] == 0xE9 or (code[at - 2] == 0x0F and code[at - 1] & 0xF0 == 0x80):
        return any(start <= at < end and start <= target < end for start, end in functions)
    return False


def device_calls(cubin: Elf) -> Said:
    """Functions that the driver adds to a kernel."""
    for name in sorted({s.name for s in cubin.symbols if s.kind == elf.FUNCTION and not s.section}):
        if name not in DEVICE_LIBRARY:
            known = (why for pattern, why in DEVICE_CALLS if pattern.fullmatch(name))
            called = name.replace("vprintf", "printf")  # as a source calls it
            yield called, f"a kernel calls it: {next(known, 'a kernel does not need it')}"


def _special_registers(build: Build, ptx: str) -> list[Finding]:
    """Those that tell a kernel more than its arguments and its place in the grid do."""
    text = machine_code_of(build)
    if text is None:
        return [Finding(line=1, what="its machine code cannot be read: nvdisasm failed")]
    with text.open(errors="replace") as lines:
        read = refused_registers(lines, timer=register_flow.only_sleeps(ptx))
    read += ptx_audit.refused_registers(ptx, grid_sync=register_flow.only_grid_sync(ptx))
    why = "a kernel's behaviour may depend only on its arguments"
    return [Finding(line=line, what=f"reads {name}: {why}") for name, line in read[:MOST_SAID]]


def _device_code(ptx: str, task: Task) -> Said:
    if not task.tensor_float32:
        yield from _low_precision(ptx, task)
    if task.batch_invariant and (instruction := ptx_audit.float_sum_by_atomics(ptx)):
        yield instruction, ANY_ORDER
    if instruction := register_flow.ignored_wait(ptx):
        yield instruction, TRIED_ONCE
    if instruction := ptx_audit.kept_in_l2(ptx):
        yield instruction, "asks the L2 cache to keep data for later calls"
    for name in written_variables(ptx):
        yield name, f"a kernel writes to this module variable: {SHARED_STATE}"


def _low_precision(ptx: str, task: Task) -> Said:
    float32 = [task.is_float32(kind.case({})) for kind in task.combinations]
    if any(float32) and (what := ptx_audit.tf32(ptx)):
        yield what, "rounds float32 to a mantissa of ten bits, but the contract says float32"
    elif all(float32) and (what := ptx_audit.tensor_or_low_precision(ptx)):
        yield what, "computes with fewer bits than float32, but the contract says float32"


def _line(source: str, name: str) -> int:
    """First line that names it; 1 where none does."""
    word = re.compile(rf"\b{re.escape(last_identifier(name))}\b")
    lines = enumerate(source.split("\n"), start=1)
    return next((number for number, line in lines if word.search(line)), 1)


PLACES_IN_GRID = re.compile(
    r"SRZ|SR_(?:(?:TID|CTAID|NTID|NCTAID)(?:\.[XYZ])?|LANEID|(?:EQ|LT|LE|GT|GE)MASK|SMEMSZ"
    r"|(?:Cga|CGA|CLUSTER)\w*(?:\.[XYZ])?|[SL]WIN(?:LO|HI))"
)
"""Where a thread is in its warp, block, cluster and grid, how much shared memory it has, and where
that and local memory begin among generic addresses."""
TIMER = re.compile(r"SR_GLOBALTIMER\w*")
PTX_NAMES = (
    ("SR_CLOCK", "%clock"),
    ("SR_GLOBALTIMER", "%globaltimer"),
    ("SR_VIRTUALSMID", "%smid"),
    ("SR_SMID", "%smid"),
    ("SR_VIRTID", "%warpid"),
    ("SR_VIRTCFG", "%nwarpid"),
    ("SR_PM", "%pm"),
)
"""Beginning of a name in machine code, and the PTX register or registers that it is."""
PTX_FILE = ".nv_debug_ptx_txt"
_ROW = re.compile(
    r'\s*//## File "(?P<file>[^"]*)", line (?P<line>\d+)'
    r'(?: inlined at "(?P<caller>[^"]*)", line (?P<at>\d+))?'
)
_READ = re.compile(
    r"^\s+/\*[0-9a-f]{4,}\*/\s+(?=[^;]*(?:\bC?S2U?R\b|\bSR_))[^;]*?(?P<register>[^\s,;]+)\s*;"
)


@dataclass(frozen=True)
class Frame:
    """A line of source, or the line of a call that was inlined."""

    file: str
    line: int


@dataclass(frozen=True)
class Read:
    """An instruction that reads a special register."""

    register: str
    """Name of the register as nvdisasm spells it: SR_TID.X."""
    frames: tuple[Frame, ...]
    """Lines that the instruction comes from, innermost first; empty where the text does not say."""


def refused_registers(lines: Iterable[str], *, timer: bool) -> list[tuple[str, int]]:
    """Special registers that a candidate may not read, and a line of its source for each; 1 where
    none is named.

    `lines`: nvdisasm's text. `timer`: whether the PTX that the code is made of reads the timer for
    no more than pauses (register_flow.py). Lines and files decide nothing: they are only told.
    """
    found: dict[str, int] = {}
    for read in special_registers(lines):
        if PLACES_IN_GRID.fullmatch(read.register):
            continue
        if timer and TIMER.fullmatch(read.register):
            continue
        own = (f.line for f in read.frames if f.file.rpartition("/")[2] == SOURCE)
        found.setdefault(_named(read.register), next(own, 1))
    return list(found.items())


def special_registers(lines: Iterable[str]) -> Iterator[Read]:
    """Every instruction that reads a special register, in the order of the text.

    A place holds until the next one is named, from one function to the next as well.
    """
    rows: list[re.Match[str]] = []
    complete = False
    for line in lines:
        if row := _ROW.match(line):
            if row["file"] != PTX_FILE:
                rows = [row] if complete else [*rows, row]
                complete = False
        else:
            complete = True
            if read := _READ.match(line):
                yield Read(read["register"], _frames(rows))


def _frames(rows: list[re.Match[str]]) -> tuple[Frame, ...]:
    """Frames from the last row up to the innermost line: each row says at what the next one
    stands."""
    frames: list[Frame] = []
    for row in reversed(rows):
        caller = Frame(row["caller"], int(row["at"])) if row["caller"] else None
        if frames and caller != frames[0]:
            break
        frames.insert(0, Frame(row["file"], int(row["line"])))
    return tuple(frames)


def _named(register: str) -> str:
    known = (ptx for start, ptx in PTX_NAMES if register.startswith(start))
    name = next(known, "")
    return f"{name} ({register})" if name else f"the special register {register}"
