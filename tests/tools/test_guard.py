"""The source policy: what it refuses, with its line, and honest look-alikes that it must accept."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.guard import guard

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = """
extern "C" cudaError_t entry(void* out, cudaStream_t stream) {
  return cudaGetLastError();
}
"""

REFUSED = {
    "starts a program": 'int f() { return system("ls"); }',
    "through a pointer": "auto f = &system;",
    "spliced name": 'int f() { return sys\\\ntem("ls"); }',
    "after a raw string that hides a quote": 'auto s = R"x(")\\\nx")x"; int i = system("");',
    "in a macro": '#define RUN(x) popen(x, "r")',
    "qualified": "int f() { return ::fork(); }",
    "word as a call": "void f() { exit(0); }",
    "word, global": "auto f = ::kill;",
    "declared by hand and called": 'extern "C" int kill(int, int);\nvoid f() { kill(1, 9); }',
    "host thread": "std::thread worker;",
    "pthread": "pthread_create(nullptr, nullptr, nullptr, nullptr);",
    "file": 'std::ifstream f("/etc/passwd");',
    "environment": 'auto key = getenv("HOME");',
    "symbol lookup": 'void* p = dlsym(nullptr, "x");',
    "own event": "cudaEvent_t e;",
    "defines what the judge calls": "float cudaEventElapsedTime(float* ms) { return 0; }",
    "graph": "cudaGraphExec_t g;",
    "own stream": "cudaStream_t s; cudaStreamCreateWithFlags(&s, 1);",
    "capture probe": "cudaStreamIsCapturing(s, &status);",
    "waits": "cudaDeviceSynchronize();",
    "host callback": "cudaLaunchHostFunc(stream, f, nullptr);",
    "allocates": "cudaMallocAsync(&p, 16, stream);",
    "heap": "void* p = malloc(16);",
    "managed": "__managed__ int counter;",
    "persisting cache": "config.accessPolicyWindow.num_bytes = 1;",
    "device limit": "cudaDeviceSetLimit(cudaLimitStackSize, 1);",
    "driver": "cuLaunchKernel(f);",
    "library": "cublasHandle_t h;",
    "unknown runtime name": "cudaFutureThing(1);",
    "registers with the runtime": "__cudaRegisterFunction(0);",
    "local header": '#include "judge.h"',
    "absolute header": "#include </etc/passwd>",
    "climbing header": "#include <cuda/std/../../x>",
    "header not needed": "#include <thread>",
    "computed header": "#define H <cstdio>\n#include H",
    "next header": "#include_next <cstdio>",
    "digraph header": '%: include "x"',
    "embedded file": '#embed "/etc/passwd"',
    "looks for files": '#if __has_include("/etc/passwd")\n#endif',
    "pragma": "#pragma GCC optimize(3)",
    "pragma operator": '_Pragma("weak f = g")',
    "line": '#line 1 "other.cu"',
    "line, as the preprocessor writes it": '# 100 "right on 54 cases.cu"',
    "text that runs the other way": "/* \u202e */ int accepted;",
    "isolated text": 'auto s = "\u2066accepted\u2069";',
    "constructor": "__attribute__((constructor)) void f();",
    "constructor, dressed": "__attribute__((noinline, __constructor__)) void f();",
    "constructor, standard brackets": "[[gnu::constructor]] void f();",
    "constructor, using": "[[using gnu: noinline, constructor]] void f();",
    "section": '__attribute__((section(".init_array"))) int x;',
    "host assembly": 'void f() { asm volatile("nop"); }',
    "file assembly": 'asm(".incbin \\"/etc/passwd\\"");',
    "a clock in device code": '__device__ void f() { asm("mov.u64 %0, %%globaltimer;"); }',
    "system call in device code": '__device__ void f() { asm("syscall"); }',
    "x86 in a macro": '#define CALL asm volatile("mov %%rax, %0")',
    "pasted": "#define CAT(a, b) a##b\nint i = CAT(sys, tem)(0);",
    "pasted family": "#define CAT(a, b) a %:%: b\nCAT(cudaGra, phLaunch)(g, s);",
    "time": "auto now = std::chrono::steady_clock::now();",
    "trigraph": "// ??/\nint x;",
    "open literal": 'auto s = "abc\n;',
}

ACCEPTED = {
    "comment": '// system("ls")\n/* cudaMalloc(&p, 1); dlsym */',
    "string": 'const char* s = "system(";  const char* t = R"(popen("x"))";',
    "longer name": "int num_system = 0, system_size = 1, executed = 2, prefetch_fork_count = 3;",
    "word as a variable": "int time = 0, read = 1, kill = time + read, free = 2;",
    "word as a member": "void f(P* q) { pipe.accept(1); q->send(2); queue::open(3); }",
    "own function with a word's name": "__device__ float read(const float* p) { return *p; }\n"
    "__device__ float twice(const float* p) { return 2 * read(p); }",
    "PTX": '__device__ void f() { asm volatile("griddepcontrol.wait;" ::: "memory"); }',
    "PTX in a nested block": '__global__ void k() { { asm("mov.u32 %0, %%laneid;"); } }',
    "PTX in a macro": '#define WAIT() asm volatile("cp.async.wait_all;")',
    "PTX that jumps": '__device__ void f() { asm("{ .reg .pred p; @p bra L; L: }"); }',
    "headers": "#include <cuda_fp16.h>\n#include <cub/block/block_reduce.cuh>\n#include <cstdint>\n"
    "#include <cooperative_groups/reduce.h>\n#include <cuda/std/limits>\n#include <cuda/ptx>",
    "unroll": '#pragma unroll 4\nvoid f();\n#define U _Pragma("unroll")',
    "attributes": "__attribute__((always_inline, aligned(sizeof(int)))) inline void f();\n"
    "[[nodiscard]] int g();  struct alignas(16) V { int x[4]; };  [[gnu::noinline]] void h();",
    "launch attributes": "void f(cudaLaunchConfig_t& config, cudaLaunchAttribute* a)\n"
    "{ a->id=cudaLaunchAttributeProgrammaticStreamSerialization; cudaLaunchKernelEx(&config, k);}",
    "shared memory": "void f() {\n"
    "cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536); }",
    "occupancy": "void f() { cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, k, 256, 0); }",
    "zeroes its output": "void f() { cudaMemsetAsync(out, 0, 4, stream); }",
    "harmless paste": "#define NAME(a) kernel_##a\nint NAME(x); int m, a, p, f, o, r, k;",
    "error check": '#define CHECK(x) if (auto e = (x)) printf("%s", cudaGetErrorString(e))',
    "digits with quotes": "constexpr int n = 1'000'000; const char c = '\"';",
    "apostrophe in an untaken branch": "#if 0\n#error can't happen\n#endif",
    "constant table": "__constant__ float table[2] = {1.0f, 2.0f};",
    "namespace of CUDA": "cuda::std::numeric_limits<float>::max(); cub::WarpReduce<float> w;",
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_refuses(name: str) -> None:
    source = f"\n{REFUSED[name]}\n"
    found = guard(source + LAUNCHER, "entry")
    assert found
    assert all(2 <= finding.line <= source.count("\n") + 1 for finding in found), found


@pytest.mark.parametrize("name", ACCEPTED)
def test_it_accepts(name: str) -> None:
    assert guard(ACCEPTED[name] + LAUNCHER, "entry") == ()


@pytest.mark.parametrize(
    "source",
    [
        "",
        "cudaError_t entry(void* out) { return cudaSuccess; }",
        'extern "C" cudaError_t entry(void* out);',
        'extern "C" cudaError_t other(void* out) { return entry(out); }',
        '// extern "C" cudaError_t entry(void* out) { }',
        '#define X extern "C" cudaError_t entry(void* out) { }',
        "namespace n { cudaError_t entry() { return cudaSuccess; } }",
    ],
)
def test_a_missing_launcher_is_said(source: str) -> None:
    assert [f.what for f in guard(source, "entry")] == [
        'no launcher: extern "C" cudaError_t entry(...) is not defined'
    ]


def test_a_launcher_in_a_linkage_block_is_found() -> None:
    assert guard('extern "C" { cudaError_t entry(int x) { return cudaSuccess; } }', "entry") == ()


def test_a_finding_says_line_name_and_reason() -> None:
    (finding,) = guard(f"{LAUNCHER}\nvoid* p = dlopen(nullptr, 1);", "entry")
    assert finding.line == LAUNCHER.count("\n") + 2
    assert finding.what == "dlopen: it finds functions by name at run time"


def test_a_huge_source_is_refused_at_once() -> None:
    (finding,) = guard("a" * 600_000, "entry")
    assert "longer than" in finding.what


def test_every_shipped_kernel_passes() -> None:
    for path in (ROOT / "sglang_kernels").rglob("*.cu"):
        entry = next(p.name for p in path.parents if (p / "task.toml").is_file())
        assert guard(path.read_text(), entry) == (), path


def test_a_tasks_own_headers_may_be_included_in_quotes() -> None:
    source = f'#include "rows.cuh"\n{LAUNCHER}'
    assert guard(source, "entry", ["rows.cuh"]) == ()
    (finding,) = guard(source.replace("rows", "../rows"), "entry", ["rows.cuh"])
    assert finding.what.startswith('#include "../rows.cuh": in quotes stand rows.cuh')
    assert guard(f'#include_next "rows.cuh"\n{LAUNCHER}', "entry", ["rows.cuh"])
