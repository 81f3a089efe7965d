"""The audit of what was built: each hidden thing is found, honest kernels pass."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from astra_chat.tools.build import disassembly
from astra_chat.tools.build.nvcc import Build, build, build_all
from astra_chat.tools.policy.binary_audit import (
    TEXTS,
    Frame,
    audit,
    device_calls,
    refused_registers,
    special_registers,
)
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.task.batch_invariance import BatchInvariant
from astra_chat.tools.task.folder import find_task, task_names
from astra_chat.tools.types import Finding
from astra_vgpu.ground.elf import Elf
from astra_vgpu.ground.toolkit import find_toolkit
from tests.sglang_kernels.shipped import kernels

TASK = find_task("silu_and_mul")
DEVICE = virtual_device("h200")
ENTRY = (
    'extern "C" cudaError_t silu_and_mul(void*, const void*, int64_t, int64_t, int,'
    " cudaStream_t stream) {"
)
HEAD = "#include <cstdint>\n#include <cstdio>\n#include <cstdlib>\n#include <cuda_runtime.h>\n"
RUN = "k<<<1, 1, 0, stream>>>(nullptr);"


def kernel(before: str, inside: str, extra: str = "") -> str:
    return f"{HEAD}{before}\n{ENTRY} {inside} return cudaGetLastError(); }}\n{extra}"


def found(
    source: str, dtypes: tuple[str, ...] | None = None, **more: object
) -> tuple[Finding, ...]:
    types = tuple({"T": dtype} for dtype in dtypes or TASK.dtypes)
    task = TASK.model_copy(update={"types": types, **more})
    built = build(task, source, DEVICE)
    assert isinstance(built, Build), built
    return audit(built, task, source)


HIDDEN = {
    "a device variable that a kernel writes and sets back": (
        kernel(
            "__device__ unsigned left; __global__ void k(float* o) { atomicInc(&left, 0); }", RUN
        ),
        "left: a kernel writes to this module variable: two calls that run at the same time",
    ),
    "memory of the heap": (
        kernel("", "volatile int* kept = new int[500]; kept[100] = kept[100] + 1; delete[] kept;"),
        "must not allocate memory",
    ),
    "a policy that is a number": (
        kernel(
            "__global__ void k(float* out, const float* in) { float v; asm volatile("
            '"ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(v) : "l"(in),'
            ' "l"(0x14F0000000000000ull)); *out = v; }',
            "k<<<1, 1, 0, stream>>>(nullptr, nullptr);",
        ),
        "asks the L2 cache",
    ),
    "macros that grow without end": (
        kernel(
            "#define A(x) x x x x x x x x x x x x x x x x\n#define B A(A(A(A(A(;;)))))",
            "B",
        ),
        "macros expand to more",
    ),
    "system by a pasted name": (
        kernel("#define JOIN(a, b) a##b\n", 'JOIN(sys, tem)("true");'),
        "system",
    ),
    "a graph by a pasted name": (
        kernel("#define JOIN(a, b) a##b\n", "cudaGraph_t g; JOIN(cudaGraph, Create)(&g, 0);"),
        "cudaGraphCreate",
    ),
    "a declared function of the C library": (
        kernel('extern "C" int getpid();', "if (getpid() == 1) return cudaErrorUnknown;"),
        "getpid",
    ),
    "dlsym under another name": (
        kernel('extern "C" void* find(void*, const char*) asm("dlsym");', 'find(nullptr, "fork");'),
        "dlsym",
    ),
    "a stream of its own": (
        kernel("#define J(a, b) a##b\n", "cudaStream_t s; J(cudaStream, Create)(&s);"),
        "cudaStreamCreate",
    ),
    "its own event timer": (
        kernel(
            "",
            "",
            'extern "C" cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t)'
            " { *ms = 1e-6f; return cudaSuccess; }",
        ),
        "cudaEventElapsedTime",
    ),
    "a constructor": (
        kernel(
            "static volatile int seen;\n"
            "__attribute__((constructor)) static void early() { seen = 1; }",
            "",
        ),
        "early",
    ),
    "a dynamic initialiser": (
        kernel('static const int answer = atoi("42");', "if (answer < 0) return cudaErrorUnknown;"),
        "host code that runs when the library is loaded",
    ),
    "a second exported function": (kernel("", "", 'extern "C" int main() { return 0; }'), "main"),
    "a raw system call": (kernel("", 'asm volatile("syscall");'), ".text"),
    "a custom section": (
        kernel(
            '__attribute__((section("hidden"))) static const volatile int x = 3;',
            "volatile int y = x; (void)y;",
        ),
        "hidden",
    ),
    "data kept in L2": (
        kernel(
            "__global__ void k(unsigned long long* o) { unsigned long long p;"
            ' asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(p));'
            " o[0] = p; }",
            "k<<<1, 1, 0, stream>>>(nullptr);",
        ),
        "evict_last",
    ),
    "bytes of a system call in a constant": (
        kernel(
            "__attribute__((noinline)) static unsigned hidden(int x) { return x * 0xc3050fe8u; }",
            "if (hidden(int(size_t(stream))) == 1) return cudaErrorUnknown;",
        ),
        "0f 05",
    ),
    "an indirect function": (
        kernel(
            'extern "C" { static int yes() { return 1; } static int (*which())() { return yes; }\n'
            'static int hidden() __attribute__((ifunc("which"))); }',
            "if (hidden() == 2) return cudaErrorUnknown;",
        ),
        "hidden",
    ),
    "a name of single letters": (
        kernel(
            "#define J(a, b, c, d, e, f) a##b##c##d##e##f\n",
            "volatile long n = sizeof(*J(s, t, d, o, u, t)); (void)n;",
        ),
        "stdout",
    ),
    "printf on the device": (
        kernel('__global__ void k(float* o) { printf("%f", o[0]); }', RUN),
        "printf: a kernel calls it: device printf keeps a buffer",
    ),
    "the heap of the device": (
        kernel("__global__ void k(float* o) { o[0] = *(float*)malloc(8); }", RUN),
        "malloc: a kernel calls it: the device's heap keeps",
    ),
    "the time, by a namespace's other name": (
        kernel(
            "#include <cuda/std/cmath>\n#include <cuda/std/barrier>\nnamespace other = cuda::std;"
            "__global__ void k(float* o) {"
            " o[0] = other::chrono::system_clock::now().time_since_epoch().count(); }",
            RUN,
        ),
        "%globaltimer (SR_GLOBALTIMERLO)",
    ),
    "only grid.sync() may use": (
        kernel(
            "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;"
            "__global__ void k(float* o) { ++cg::details::get_grid_workspace()->wsSize; }",
            RUN,
        ),
        "only grid.sync()",
    ),
    "a driver call": (
        kernel("#include <cuda.h>\n", "CUcontext c; cuCtxGetCurrent(&c);"),
        "cuCtxGetCurrent",
    ),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_things_are_found(name: str) -> None:
    source, what = HIDDEN[name]
    findings = found(source)
    assert any(what in finding.what for finding in findings), findings
    assert all(1 <= finding.line <= source.count("\n") + 1 for finding in findings)


def test_sums_of_a_batch_invariant_task_have_an_order() -> None:
    source = kernel("__global__ void k(float* o) { atomicAdd(o, o[threadIdx.x + 1]); }", RUN)
    rule = BatchInvariant(rows="tokens", outputs=("out",))
    assert found(source) == ()
    (finding,) = found(source, batch_invariant=rule)
    assert "adds floats in the order in which threads arrive" in finding.what


def test_the_line_is_the_one_that_names_it() -> None:
    source, _ = HIDDEN["a declared function of the C library"]
    (finding,) = found(source)
    assert "getpid" in source.splitlines()[finding.line - 1]


REGISTERS = {
    "clock": "%clock (SR_CLOCKLO)",
    "clock_hi": "%clock (SR_CLOCKHI)",
    "globaltimer_lo": "%globaltimer (SR_GLOBALTIMERLO)",
    "smid": "%smid (SR_VIRTUALSMID)",
    "nsmid": "%nsmid",
    "warpid": "%warpid (SR_VIRTID)",
    "nwarpid": "%nwarpid (SR_VIRTCFG)",
    "envreg2": "%envreg2",
    "pm3": "%pm (SR_PM3)",
}


def test_special_registers_are_found_in_the_machine_code_each_at_its_line() -> None:
    lines = (
        f'asm volatile("mov.u32 %0, %%{name};" : "=r"(v)); o[{i}] = v;'
        for i, name in enumerate(REGISTERS)
    )
    body = "\n".join(lines)
    source = kernel(f"__global__ void k(float* o) {{ unsigned v;\n{body}\n}}", RUN)
    findings = found(source)
    for name, words in REGISTERS.items():
        (line,) = (i for i, text in enumerate(source.splitlines(), 1) if f"%%{name};" in text)
        assert any(f.line == line and f"reads {words}: " in f.what for f in findings), name


def test_a_launch_from_a_kernel_is_found(tmp_path: Path) -> None:
    """nvcc builds it as relocatable code alone, which no task's flags ask for so far."""
    source, cubin = tmp_path / "k.cu", tmp_path / "k.cubin"
    source.write_text(
        "__global__ void child() {}\n__global__ void parent() { child<<<1, 1>>>(); }\n"
    )
    command = [str(find_toolkit().nvcc), "-rdc=true", "-arch=sm_90", "-cubin", "-o", str(cubin)]
    subprocess.run([*command, str(source)], check=True)
    said = dict(device_calls(Elf.read(cubin)))
    assert said and all("only the launcher may launch" in why for why in said.values()), said


def test_machine_code_that_cannot_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = kernel("__global__ void k(float* o) { o[0] = 1; }", RUN)
    built = build(TASK, source, DEVICE)
    assert isinstance(built, Build)
    shutil.copytree(built.folder, tmp_path / "build")
    (tmp_path / "build" / disassembly.FILE).unlink(missing_ok=True)
    monkeypatch.setattr(disassembly, "find_tool", lambda _: Path("/bin/false"))
    (finding,) = audit(replace(built, folder=tmp_path / "build"), TASK, source)
    assert "nvdisasm failed" in finding.what


TF32 = (
    "#include <mma.h>\nusing namespace nvcuda;\n__global__ void k(float* o) {"
    " wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> a;"
    " wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> b;"
    " wmma::fragment<wmma::accumulator, 16, 16, 8, float> c; wmma::fill_fragment(c, 0.f);"
    " wmma::load_matrix_sync(a, o, 16); wmma::load_matrix_sync(b, o, 16);"
    " wmma::mma_sync(c, a, b, c); wmma::store_matrix_sync(o, c, 16, wmma::mem_row_major); }"
)
HALF = (
    "#include <cuda_fp16.h>\n__global__ void k(float* o) {"
    " o[0] = __half2float(__hmul(__float2half(o[1]), __float2half(o[2]))); }"
)


@pytest.mark.parametrize(
    ("code", "dtypes"), [(TF32, None), (TF32, ("float32",)), (HALF, ("float32",))]
)
def test_precision_below_the_contract_is_found(code: str, dtypes: tuple[str, ...] | None) -> None:
    findings = found(kernel(code, "k<<<1, 32, 0, stream>>>(nullptr);"), dtypes)
    assert any("float32" in finding.what for finding in findings)


@pytest.mark.parametrize("code", [TF32, HALF])
def test_a_task_may_grant_it(code: str) -> None:
    source = kernel(code, "k<<<1, 32, 0, stream>>>(nullptr);")
    assert found(source, ("float32",), tensor_float32=True) == ()


def test_half_arithmetic_is_welcome_where_the_contract_has_half() -> None:
    assert found(kernel(HALF, "k<<<1, 32, 0, stream>>>(nullptr);")) == ()


HONEST = {
    "a constant table": kernel(
        "__constant__ float table[4] = {1, 2, 3, 4};\n"
        "__device__ const float more[4] = {1, 2, 3, 4};\n"
        "__global__ void k(float* o) { o[threadIdx.x] = table[threadIdx.x] + more[threadIdx.x]; }",
        "k<<<1, 4, 0, stream>>>(nullptr);",
    ),
    "a table in a namespace without a name": kernel(
        "namespace { __constant__ float table[2] = {1, 2}; }\n"
        "__global__ void k(float* o) { o[threadIdx.x] = table[threadIdx.x]; }",
        "k<<<1, 2, 0, stream>>>(nullptr);",
    ),
    "a number that the launcher asks for once": kernel(
        "static int asked() { int n = 0; cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount,"
        " 0); return n; }\n__global__ void k(float* o) { o[0] = 1; }",
        "static const int count = asked(); static bool once = false; if (!once) once = true;"
        "k<<<count, 1, 0, stream>>>(nullptr);",
    ),
    "waits of the toolkit": kernel(
        "#include <cooperative_groups.h>\n#include <cuda/barrier>\n"
        "__global__ void k(float* o) { __shared__ cuda::barrier<cuda::thread_scope_block> b;"
        " if (threadIdx.x == 0) init(&b, blockDim.x); __syncthreads(); b.arrive_and_wait();"
        " cooperative_groups::this_grid().sync(); o[0] = 1; }",
        RUN,
    ),
    "what the L1 keeps": kernel(
        "__global__ void k(float* o) { float v;"
        ' asm volatile("ld.global.nc.L1::evict_last.f32 %0, [%1];" : "=f"(v) : "l"(o + 1));'
        " o[0] = v; }",
        RUN,
    ),
    "assert on the device": kernel(
        "#include <cassert>\n__global__ void k(float* o) { assert(o); o[0] = 1; }", RUN
    ),
    "an error told on stderr": kernel(
        "#define CHECKED(x) do { if (cudaError_t e = (x))"
        ' { fprintf(stderr, "%s\\n", cudaGetErrorString(e)); return e; } } while (0)\n',
        "CHECKED(cudaPeekAtLastError());",
    ),
    "PTX in a function for both sides": kernel(
        "__host__ __device__ inline float up(float x) {\n#ifdef __CUDA_ARCH__\n"
        'asm("ex2.approx.f32 %0, %0;" : "+f"(x));\n#endif\nreturn x; }\n'
        "__global__ void k(float* o) { o[0] = up(o[0]); }",
        "k<<<1, 1, 0, stream>>>(nullptr);",
    ),
    "shared memory over 48 KB": kernel(
        "extern __shared__ float s[];\n"
        "__global__ void k(float* o) { s[threadIdx.x] = o[0]; o[1] = s[0]; }",
        "cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);"
        "k<<<1, 32, 65536, stream>>>(nullptr);",
    ),
    "a C kernel": kernel(
        'extern "C" __global__ void named_plainly(float* o) { o[0] = 1; }',
        "named_plainly<<<1, 1, 0, stream>>>(nullptr);",
    ),
    "a constant on the host": kernel(
        "static const int sizes[3] = {1, 2, 3};",
        "if (sizes[int(size_t(stream) % 3)] > 3) return cudaErrorUnknown;",
    ),
    "what stream headers of a newer g++ name": kernel(
        "namespace std { void ios_base_library_init(); }\n",
        "if (stream == (cudaStream_t)std::ios_base_library_init) return cudaErrorUnknown;",
    ),
    "launch attributes": kernel(
        "__global__ void k(float* o) { o[0] = 1; }",
        "cudaLaunchConfig_t c = {}; c.gridDim = 1; c.blockDim = 1; c.stream = stream;"
        " cudaLaunchAttribute a[1]; a[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;"
        " a[0].val.programmaticStreamSerializationAllowed = 1; c.attrs = a; c.numAttrs = 1;"
        " cudaLaunchKernelEx(&c, k, (float*)nullptr);",
    ),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_styles_pass(name: str) -> None:
    assert found(HONEST[name]) == ()


@pytest.mark.parametrize("name", task_names())
@pytest.mark.second_tier
def test_all_shipped_kernels_pass_but_the_papers(name: str) -> None:
    task = find_task(name)
    sources = [text for name, text in kernels(task).items() if name != "paper.cu"]
    for built, source in zip(build_all(task, sources, DEVICE), sources, strict=True):
        assert not isinstance(built, Build) or audit(built, task, source) == ()


@pytest.mark.parametrize(
    ("name", "of_texts"),
    [
        ("_ZNKSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEE3strEv", True),
        ("_ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEEC1Ev", True),
        ("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6appendEPKc", True),
        ("_ZTVNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEEE", True),
        ("_ZNSolsEi", True),
        ("_ZNSt8ios_baseC2Ev", True),
        ("_ZSt4cout", False),
        ("_ZNSt14basic_ofstreamIcSt11char_traitsIcEEC1EPKcSt13_Ios_Openmode", False),
        ("_ZNSt7__cxx1118basic_stringstreamIcSt11char_traitsIcESaIcEEC1Ev", False),
        ("_ZNSt6thread15_M_start_threadE", False),
        ("_Znwm", False),
        ("getenv", False),
    ],
)
def test_texts_of_checks_are_told_from_other_links(name: str, of_texts: bool) -> None:
    assert bool(TEXTS.fullmatch(name)) == of_texts


OWN = '\t//## File "/build/0/kernel.cu", line {}\n'
PTX = '\t//## File ".nv_debug_ptx_txt", line 7\n'
THREADS = "/usr/local/cuda/include/cccl/cuda/std/__thread/threading_support.h"
WAIT = f'\t//## File "{THREADS}", line 65 inlined at "/build/0/kernel.cu", line 14\n'
OTHER = "        /*0020*/                   IADD3 R2, R2, R3, RZ ;     /* 0x00000a */\n"


def instruction(text: str) -> str:
    return f"        /*00a0*/              {text} ;              /* 0x0000000000007919 */\n"


def refused(text: str, *, timer: bool = False) -> list[tuple[str, int]]:
    return refused_registers(text.splitlines(keepends=True), timer=timer)


@pytest.mark.parametrize(
    "text",
    [
        "S2R R0, SR_TID.X",
        "@!P0 S2R R0, SR_TID.Y",
        "S2UR UR4, SR_CTAID.Z",
        "CS2R R2, SRZ",
        "S2R R3, SR_LANEID",
        "S2R R3, SR_LTMASK",
        "S2UR UR6, SR_CgaCtaId",
        "S2R R1, SR_CgaSize",
        "S2R R5, SR_SMEMSZ",
        "S2UR UR5, SR_SWINHI",
        "IADD3 R2, R2, R3, RZ",
    ],
)
def test_where_a_thread_is_may_be_asked(text: str) -> None:
    assert refused(OWN.format(3) + PTX + instruction(text)) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("CS2R R4, SR_CLOCKLO", "%clock (SR_CLOCKLO)"),
        ("@P1 CS2R.32 R5, SR_CLOCKHI", "%clock (SR_CLOCKHI)"),
        ("S2UR UR4, SR_GLOBALTIMERLO", "%globaltimer (SR_GLOBALTIMERLO)"),
        ("S2R R5, SR_VIRTUALSMID", "%smid (SR_VIRTUALSMID)"),
        ("S2R R5, SR_VIRTID", "%warpid (SR_VIRTID)"),
        ("CS2UR UR4, SR_PM0", "%pm (SR_PM0)"),
        ("MOV R3, SR_CLOCKLO", "%clock (SR_CLOCKLO)"),
        ("S2R R5, SR_NEW", "the special register SR_NEW"),
        ("S2R R5, 0x55", "the special register 0x55"),
    ],
)
def test_all_others_are_refused_at_their_line(text: str, name: str) -> None:
    lines = OWN.format(3) + PTX + OTHER + OWN.format(12) + PTX + instruction(text)
    assert refused(lines + OWN.format(20) + instruction(text)) == [(name, 12)]


def test_the_timer_is_allowed_where_it_only_pauses_and_no_line_says_so() -> None:
    """A line of the toolkit's own wait, which inline assembly could name, changes nothing."""
    timer, clock = (instruction(f"CS2R R4, SR_{name}") for name in ("GLOBALTIMERLO", "CLOCKLO"))
    waits = WAIT + OWN.format(14) + PTX
    assert refused(waits + timer, timer=True) == refused(OWN.format(3) + timer, timer=True) == []
    assert refused(waits + timer) == [("%globaltimer (SR_GLOBALTIMERLO)", 14)]
    assert refused(waits + clock, timer=True) == [("%clock (SR_CLOCKLO)", 14)]


def test_a_place_holds_until_the_next() -> None:
    text = WAIT + OWN.format(14) + OTHER + PTX + instruction("S2R R0, SR_TID.X")
    (read,) = special_registers(text.splitlines())
    assert read.register == "SR_TID.X"
    assert read.frames == (Frame(THREADS, 65), Frame("/build/0/kernel.cu", 14))


def test_an_instruction_of_no_line_is_refused_at_the_first() -> None:
    assert refused(instruction("CS2R R4, SR_GLOBALTIMERLO")) == [
        ("%globaltimer (SR_GLOBALTIMERLO)", 1)
    ]
