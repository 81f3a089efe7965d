"""The source policy as a table: allowed headers and CUDA calls, forbidden names with reasons.

The table is not a proof: names can be hidden from any reader of source text, so the audit of the
built object follows (binary_audit.py). It exists to refuse early, with a line number and a reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SOURCE_BYTES = 512 * 1024
"""The longest source that is looked at."""

HEADERS = re.compile(
    r"""<(
      cuda_(runtime|runtime_api|pipeline(_primitives|_helpers)?|awbarrier(_primitives|_helpers)?)\.h
    | cuda_(fp16|bf16|fp8|fp6|fp4)\.hp{0,2}
    | (cuda|vector_types|vector_functions|math_constants|mma|driver_types
      |device_launch_parameters|cooperative_groups)\.h
    | cooperative_groups/[a-z_]+\.h
    | cuda/(std/[a-z_]+|atomic|barrier|bit|cmath|functional|latch|memory|numeric|pipeline|ptx
      |semaphore|type_traits|utility|warp|annotated_ptr|access_property|discard_memory)
    | (cub|thrust)/([a-z_]+/)*[a-z_]+\.(cuh|h)
    | c?(stdint|stddef|inttypes|string|math|limits|float|assert|stdio|stdlib)(\.h)?
    | algorithm | array | bit | concepts | functional | initializer_list | iterator | numbers
    | numeric | optional | span | tuple | type_traits | utility
    )>""",
    re.VERBOSE,
)

HEADERS_TEXT = (
    "CUDA's own, <cuda/std/...>, cub and thrust, C's <cstdint>, <cstddef>, <cinttypes>, <cstring>,"
    " <cmath>, <climits>, <cfloat>, <cassert>, <cstdio> and <cstdlib>, and <algorithm>, <array>,"
    " <bit>, <concepts>, <functional>, <initializer_list>, <iterator>, <numbers>, <numeric>,"
    " <optional>, <span>, <tuple>, <type_traits> and <utility>"
)
"""HEADERS in words."""

DIRECTIVES = frozenset(
    "# define undef if ifdef ifndef elif elifdef elifndef else endif include pragma error warning"
    " include_next import embed".split()
)
"""Preprocessor directives that are known; the last three are refused for a reason of their own."""
PRAGMAS = re.compile(
    r"(unroll|nounroll|once|nv_\w+|diag_\w+|hd_warning_disable|GCC (unroll|ivdep|diagnostic))\b"
)

ATTRIBUTES = frozenset(
    "aligned always_inline cold const flatten format hot may_alias noinline nonnull nothrow packed"
    " pure unused".split()
)
"""GCC attributes; each may also stand between double underscores."""
CUDA_ATTRIBUTES = frozenset(
    "host device global shared constant launch_bounds cluster_dims block_size maxnreg grid_constant"
    " nv_pure device_builtin".split()
)
"""What CUDA's own words (__shared__, __launch_bounds__) expand to."""
KEYWORDS = frozenset("if for do new int int char long short auto void this return".split())
"""They are in every source: with the name of the stream, `if` would give ifstream."""

CUDA_CALLS = re.compile(
    r"""cuda(
      Error_t | Error | Success | Error[A-Z]\w* | Stream_t | GetLastError | PeekAtLastError
    | GetErrorString | GetErrorName | GetDevice | GetDeviceProperties | DeviceProp
    | DeviceGetAttribute | DeviceAttr | DevAttr[A-Z]\w*
    | FuncSetAttribute | FuncGetAttributes | FuncAttribute\w* | FuncSetCacheConfig | FuncCache\w*
    | SharedmemCarveout\w* | Occupancy\w* | ClusterSchedulingPolicy\w*
    | LaunchKernel | LaunchKernelEx | LaunchKernelExC | LaunchCooperativeKernel | LaunchConfig_t
    | LaunchAttribute | LaunchAttributeID | LaunchAttributeValue | LaunchAttributeCooperative
    | LaunchAttributeClusterDimension | LaunchAttributeClusterSchedulingPolicyPreference
    | LaunchAttributePreferredClusterDimension | LaunchAttributePreferredSharedMemoryCarveout
    | LaunchAttributeProgrammaticStreamSerialization
    | GridDependencySynchronize | TriggerProgrammaticLaunchCompletion
    | MemsetAsync | MemcpyAsync | MemcpyKind | MemcpyDeviceToDevice
    )""",
    re.VERBOSE,
)
"""What a launcher may name of the CUDA runtime; any other cuda... name is refused."""


@dataclass(frozen=True)
class Rule:
    """Names that no candidate may use. A trailing * stands for any rest."""

    names: str
    reason: str
    called: bool = False
    """Only as a call, f(...) or ::f: the name is also an ordinary word."""


RULES = (
    # Reasons for names of the CUDA runtime that CUDA_CALLS leaves out: the better sentence wins.
    Rule(
        "cudaMalloc* cudaFree* cudaHost* cudaMemPool* __managed__ aligned_alloc posix_memalign",
        "a launcher must not allocate memory: use the arguments, registers and shared memory",
    ),
    Rule(
        "malloc calloc realloc free",
        "a launcher must not allocate memory: use the arguments, registers and shared memory",
        called=True,
    ),
    Rule("cudaEvent*", "only the judge, which measures the time, may use events"),
    Rule(
        "cudaGraph* cudaStreamBeginCapture* cudaStreamEndCapture cudaStreamGetCapture*"
        " cudaStreamIsCapturing cudaStreamUpdateCapture*",
        "every call must launch its work again, whether the call is captured or not",
    ),
    Rule(
        "cudaStreamCreate* cudaStreamLegacy cudaStreamPerThread cudaStreamDestroy"
        " cudaStreamWaitEvent cudaStreamNonBlocking",
        "all work must go to the caller's stream",
    ),
    Rule(
        "cudaStreamSetAttribute cudaLaunchAttributeAccessPolicyWindow accessPolicyWindow"
        " cudaDeviceSetLimit cudaLimit* cudaCtx* cudaDeviceSet* cudaSetDevice* cudaDeviceReset"
        " cudaAccessProperty* cudaFuncSetSharedMemConfig",
        "it changes the state of the device for later calls",
    ),
    Rule(
        "cudaDeviceSynchronize cudaStreamSynchronize cudaThreadSynchronize cudaStreamQuery",
        "a launcher must not wait: a launcher that waits cannot be captured in a CUDA graph",
    ),
    Rule(
        "cudaLaunchHostFunc* cudaStreamAddCallback cudaUserObject*",
        "a callback would run host code after the call",
    ),
    Rule(
        "cudaGetDriverEntryPoint* cudaGetExportTable cudaGetFuncBySymbol cudaLibrary* cuGet*"
        " dlopen dlmopen dlsym dlvsym dladdr dlinfo dl_iterate_phdr",
        "it looks up functions by name at run time",
    ),
    Rule(
        "cublas* cudnn* cufft* curand* cusparse* cusolver* nvrtc* nvJitLink* nvml* cupti*",
        "libraries are not linked: write the kernel yourself",
    ),
    Rule("__cuda[A-Z]*", "it is the compiler's own interface to the runtime"),
    Rule("__device_stub__* _Z[A-Z0-9]*", "names of this form are reserved for the compiler"),
    Rule("cu[A-Z]*", "candidates may not use the driver API"),
    Rule(
        "system popen posix_spawn* fork vfork execl execle execlp execv execve execveat execvp"
        " execvpe fexecve wordexp",
        "it starts another program",
    ),
    Rule(
        "pthread_* thrd_* jthread this_thread sem_open sem_init clone3 CreateThread",
        "host threads may outlive the timed call",
    ),
    Rule(
        "socket socketpair getaddrinfo gethostbyname sendto recvfrom sendmsg recvmsg",
        "a kernel does not need the network",
    ),
    Rule(
        "fopen fopen64 freopen fdopen ifstream ofstream fstream filebuf openat opendir readdir"
        " tmpfile mkstemp unlink readlink creat",
        "a kernel does not need files",
    ),
    Rule(
        "getenv secure_getenv setenv putenv unsetenv clearenv environ __environ",
        "a kernel must not read the environment",
    ),
    Rule(
        "mmap mmap64 mprotect munmap mremap memfd_create shm_open ptrace process_vm_readv"
        " process_vm_writev syscall prctl",
        "it could manipulate the measuring process",
    ),
    Rule(
        "atexit at_quick_exit on_exit quick_exit _exit _Exit sigaction sigprocmask setjmp longjmp"
        " setitimer pthread_atfork",
        "it changes how the measuring process ends",
    ),
    Rule(
        "gettimeofday clock_gettime usleep nanosleep clock_nanosleep srand random_device"
        " timespec_get",
        "a kernel's behaviour must not depend on time or chance",
    ),
    Rule(
        "clock64 __clock* __nvvm_read_ptx_sreg_clock* __globaltimer* globaltimer* get_sreg_clock*"
        " get_sreg_globaltimer*",
        "a clock can reveal that a kernel is being judged, so kernels must not read clocks",
    ),
    Rule(
        "try_wait_for try_wait_until try_acquire_for try_acquire_until",
        "it reads the clock: use a wait without a time limit",
    ),
    Rule(
        "get_grid_workspace load_env_reg*",
        "only grid.sync() may use the memory that the driver reserves for it",
    ),
    Rule(
        "__builtin_return_address __builtin_frame_address __builtin_extract_return_addr"
        " __builtin_frob_return_addr backtrace*",
        "it must not depend on its caller",
    ),
    Rule(
        "__builtin_ia32_* _rdtsc* __rdtsc* _rdrand* _rdseed* _mm_* _mm256_* _xgetbv",
        "it is an instruction of the host's processor, but a launcher may only launch kernels",
    ),
    Rule(
        "__TIME__ __DATE__ __TIMESTAMP__",
        "the same source must give the same kernel, whenever it is built",
    ),
    Rule(
        "_GLOBAL_OFFSET_TABLE_ _DYNAMIC __dso_handle _r_debug __cxa_* _Unwind_* __tls_get_addr"
        " __libc_* _IO_*",
        "it belongs to the loader or the C library",
    ),
    Rule(
        "stdout stdin _fileno _IO_FILE __sFILE",
        "a stream of the C library can be redirected to other files: use only fprintf(stderr, ...)",
    ),
    Rule("__has_include __has_include_next __has_embed", "it depends on this machine's files"),
    Rule(
        "__BASE_FILE__ __FILE_NAME__ __INCLUDE_LEVEL__ __COUNTER__ __builtin_FILE"
        " __builtin_source_location",
        "its value depends on the build: the same source must give the same kernel",
    ),
    Rule(
        "TORCH_EXTENSION_NAME TORCH_API_INCLUDE_EXTENSION_H PYBIND11_COMPILER_TYPE PYBIND11_STDLIB"
        " PYBIND11_BUILD_ABI Py_LIMITED_API _GLIBCXX_USE_CXX11_ABI",
        "only some builds define it: the same source must give the same kernel",
    ),
    Rule(
        "__OPTIMIZE__ __OPTIMIZE_SIZE__ __NO_INLINE__ __FAST_MATH__ __FINITE_MATH_ONLY__ __PIC__"
        " __PIE__ __pic__ __pie__ __SANITIZE_* _FORTIFY_SOURCE __SSE* __AVX* __FMA__ __BMI*"
        " __CUDACC_DEBUG__ __CUDACC_RDC__ __CUDA_FTZ __CUDA_PREC_DIV __CUDA_PREC_SQRT"
        " __USE_FAST_MATH__",
        "it reveals how the file is compiled: the same source must give the same kernel",
    ),
    Rule(
        "__builtin_cpu_supports __builtin_cpu_is __builtin_cpu_init",
        "a launcher must not depend on the host's processor",
    ),
    Rule(
        "exit abort kill raise signal clone open read write connect bind listen accept"
        " send recv remove rename time sleep alarm pause rand",
        "it calls the operating system",
        called=True,
    ),
)

STD_NAMES = {
    "thread": "host threads may outlive the timed call",
    "jthread": "host threads may outlive the timed call",
    "async": "host threads may outlive the timed call",
    "filesystem": "a kernel does not need files",
    "chrono": "a kernel's behaviour must not depend on time or chance",
}
"""Names that are forbidden after std:: only."""

HOST_ASSEMBLY = re.compile(
    r"\b(syscall|sysenter)\b|\bint\s+\$|%%[re]?[a-ds][a-z]\b|^\s*\.(incbin|include|section"
    r"|pushsection|globl|init_array)\b|;\s*\.(incbin|include|pushsection)\b",
    re.MULTILINE,
)
"""Marks of x86 assembly and of assembler directives; PTX has none of them."""


SPECIAL_REGISTERS = re.compile(
    r"%(clock(64|_hi)?|globaltimer(_lo|_hi)?|n?smid|n?warpid|gridid|envreg\d+|pm\d+(_64)?"
    r"|current_graph_exec)\b"
)
"""PTX registers that say when and where a kernel runs, or who launched it. The audit of the machine
code allows those that it knows (binary_audit.py); here the line is named before anything is
built."""


LINE_MARKER = re.compile(r"^[ \t]*#[ \t]*\d", re.MULTILINE)
PTX_DIRECTIVE = re.compile(
    r"(?<![\w.:%$\]])\.(loc|file|func|entry|extern|visible|weak|common|global|const|alias|section"
    r"|version|target|address_size|maxntid|minnctapersm)\b"
)
"""What has its place outside functions, or says whose line an instruction is."""


def _compiled(rule: Rule) -> re.Pattern[str]:
    names = [name.replace("*", r"\w*") for name in rule.names.split()]
    return re.compile("|".join(names))


_PATTERNS = tuple((_compiled(rule), rule) for rule in RULES)


def refusal(name: str, called: bool) -> str | None:
    """Why a name is refused, or None. `called`: it stands as f(...) or ::f."""
    for pattern, rule in _PATTERNS:
        if (called or not rule.called) and pattern.fullmatch(name):
            return rule.reason
    if re.match(r"cuda[A-Z]", name) and not CUDA_CALLS.fullmatch(name):
        return "a launcher does not need this name of the CUDA runtime"
    return None


def pasted(fragments: frozenset[str]) -> str | None:
    """A forbidden name that two or three of these fragments, pasted by ##, can give; or None.

    Single letters are left to the audit: those of any kernel spell something forbidden.
    """
    parts = frozenset(fragment for fragment in fragments if len(fragment) > 1)
    longest = max(map(len, _ENDS))
    starts = (part[:end] for part in parts for end in range(1, min(len(part), longest) + 1))
    beginnings = _ENDS.intersection(starts)
    for rule in RULES:
        for name in rule.names.split() if not rule.called else ():
            whole = beginnings if name.endswith("*") else parts
            if "[" not in name and _joined(name.rstrip("*"), whole, parts, 3):
                return name
    return None


def _joined(stem: str, whole: frozenset[str], parts: frozenset[str], most: int) -> bool:
    """Whether at most `most` parts joined give `stem`; its last piece is one of `whole`."""
    if stem in parts or stem in whole:
        return True
    heads = [end for end in range(2, len(stem)) if stem[:end] in parts] if most > 1 else []
    return any(_joined(stem[end:], whole, parts, most - 1) for end in heads)


_ENDS = frozenset(
    name[start:-1]
    for rule in RULES
    for name in rule.names.split()
    if name.endswith("*")
    for start in range(len(name) - 1)
)
"""Ends, of any length, of the names that stand for families, without their *."""
