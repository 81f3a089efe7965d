"""The source policy: what it refuses, with its line, and honest look-alikes that it must accept."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from astra_chat.tools.policy.source_guard import guard, guard_expanded
from astra_chat.tools.task.folder import find_task, task_names
from tests.sglang_kernels.shipped import kernels

ROOT = Path(__file__).resolve().parents[3]
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
    "a clock in two strings": '__device__ void f() { asm("mov.u64 %0, %" "clock64;" : ""(x)); }',
    "a clock behind an escape": '__device__ void f() { asm("mov.u64 %0, \\x25globaltimer;"); }',
    "a variable of PTX": '__device__ void f() { asm(".global .u32 hidden;"); }',
    "whose line PTX is": '__device__ void f() { asm(".loc 2 1 1; mov.u32 %0, 1;"); }',
    "an attribute in a macro": "#define A __attribute__\nstatic void f() A((constructor));",
    "a vendor in a macro": "#define G gnu\n[[G::constructor]] void f();",
    "a marker in a string": 'const char* s = R"(\n# 1 "x.h" 1 3\n)";',
    "no directive": "#unassert x",
    "hour of building": "const char* when = __TIME__;",
    "the processor's clock": "auto t = __builtin_ia32_rdtsc();",
    "a stream of C": "setvbuf(stdout, nullptr, 0, 0);",
    "fields of a stream of C": "stderr->_fileno = 3;",
    "time": "auto now = std::chrono::steady_clock::now();",
    "trigraph": "// ??/\nint x;",
    "a literal's suffix": 'int operator""_x(const char*, unsigned long);',
    "a raw string that only the guard sees": 'auto s = "a"R"(" ; int i = system(""); //)";',
    "one behind a character": 'auto s = \'a\'R"(\' ; int i = system(""); //)";',
    "a byte-order mark inside": "\ufeff#include <thread>",
    "a blank that is none": "\u200b#include <thread>",
    "the end of a file": "\x1a#include <thread>",
    "the host's processor": 'bool b = __builtin_cpu_supports("avx");',
    "how often it was asked": "int i = __COUNTER__;",
    "how it is compiled": "bool b = __OPTIMIZE__;",
    "another build's name in a string": "#define S(x) #x\nauto s = S(TORCH_EXTENSION_NAME);",
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
    "paste beside the usual words": "#define K(a) k_##a\nvoid K(x)(int stream) { if (stream) {} }",
    "error on stderr": '#define CHECK(x) if (auto e = (x)) fprintf(stderr, "%d", e)',
    "a lambda with a word's name": "void f() { auto free = [](int s) { return s; }; free(1); }",
    "more headers": "#include <cuda_pipeline_primitives.h>\n#include <cuda_fp16.hpp>\n"
    "#include <span>",
    "state space in PTX": '__device__ void f() { asm("{ .reg .b32 r;'
    ' .shared .b64 s; ld.global.b32 r, [%0]; }"); }',
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


def test_a_misspelled_launcher_is_named() -> None:
    source = 'extern "C" cudaError_t silu_and_mull(void* out) { return cudaSuccess; }'
    assert [f.what for f in guard(source, "silu_and_mul")] == [
        'no launcher: extern "C" cudaError_t silu_and_mul(...) is not defined;'
        " did you mean silu_and_mull?"
    ]


def test_a_launcher_in_a_linkage_block_is_found() -> None:
    assert guard('extern "C" { cudaError_t entry(int x) { return cudaSuccess; } }', "entry") == ()


def test_a_finding_says_line_name_and_reason() -> None:
    (finding,) = guard(f"{LAUNCHER}\nvoid* p = dlopen(nullptr, 1);", "entry")
    assert finding.line == LAUNCHER.count("\n") + 2
    assert finding.what == "dlopen: it looks up functions by name at run time"


def test_a_huge_source_is_refused_at_once() -> None:
    (finding,) = guard("a" * 600_000, "entry")
    assert "longer than" in finding.what


def test_every_shipped_kernel_passes() -> None:
    for task in map(find_task, task_names()):
        for name, text in kernels(task).items():
            assert guard(text, task.entry) == (), (task.name, name)


def test_a_tasks_own_headers_may_be_included_in_quotes() -> None:
    source = f'#include "rows.cuh"\n{LAUNCHER}'
    assert guard(source, "entry", {"rows.cuh": ""}) == ()
    (finding,) = guard(source.replace("rows", "../rows"), "entry", {"rows.cuh": ""})
    assert finding.what.startswith('#include "../rows.cuh": quotes are allowed only for rows.cuh')
    assert guard(f'#include_next "rows.cuh"\n{LAUNCHER}', "entry", {"rows.cuh": ""})


EXPANDED_REFUSED = {
    "a pasted name": "void f() { system(0); }",
    "an attribute": '__attribute__((ifunc("f"))) void g();',
    "assembly of the host": '__host__ __device__ void f() { asm("nop"); }',
    "a stream's field": "void f() { (*stderr)._fileno = 3; }",
    "a stream to another function": "void f() { keep(stderr); }",
    "a stream's state": "void f() { int* p = (int*)stderr; }",
    "another file": 'void f(FILE* file) { fprintf(file, "x"); }',
    "a suffix that was pasted": 'auto s = "a"_x;',
    "an operator in pieces": 'int operator "" _x(const char*);',
    "a variable named fprintf": "struct S { template <class F> S(F*, int); };\n"
    "void f() { S fprintf(stderr, 1); }",
    "one declared with its class": "struct S { template <class F> S(F*, int); }"
    " fprintf(stderr, 1);",
    "one of a type that is asked for": "void f() { decltype(s) fprintf(stderr, 1); }",
    "one in a list": "void f() { S a(0), fprintf(stderr, 1); }",
    "a copy whose direction is a number": "void f() {"
    " cudaMemcpyAsync(a, b, 4, (cudaMemcpyKind)0, s); }",
    "a copy by another name": "auto f = cudaMemcpyAsync;",
    "a file's name beside an assert": 'void f() { __assert_fail("x"); g(0, __builtin_FILE()); }',
    "a copy with a direction that varies": "void f(cudaMemcpyKind k)"
    " { cudaMemcpyAsync(a, b, n(1, 2), k, s); }",
}
EXPANDED_ACCEPTED = {
    "a copy within the device": "void f() {"
    " cudaMemcpyAsync(a, b, size_t(rows) * f(1, 2), cudaMemcpyDeviceToDevice, s); }",
    "assert of a newer C library": "void f() { (static_cast<bool>(n > 0) ? void(0) :"
    ' __assert_fail ("n > 0", __builtin_FILE (), __builtin_LINE (), "f")); }',
    "an error told": 'void f() { if (e) { std::fprintf(stderr, "%d", e); return; } }',
    "after a cast, an if, a block": "void f() {"
    ' (void)fprintf(stderr, "a"); if (e) fprintf(stderr, "b");'
    ' { } ::fprintf(stderr, "c"); do { fprintf(stderr, "d"); } while (0); }',
    "CUDA's own attributes": "__global__ void __attribute__((launch_bounds(128))) k()"
    ' { static __attribute__((shared)) int s[4]; asm volatile("bar.sync 0;"); }',
}


@pytest.mark.parametrize("name", EXPANDED_REFUSED)
def test_it_refuses_what_macros_made(name: str) -> None:
    assert guard_expanded(EXPANDED_REFUSED[name], host=True)


@pytest.mark.parametrize("name", EXPANDED_ACCEPTED)
def test_it_accepts_what_macros_made(name: str) -> None:
    assert guard_expanded(EXPANDED_ACCEPTED[name], host=True) == ()


def test_the_devices_text_may_hold_assembly_for_both() -> None:
    text = '__host__ __device__ float f() { asm("mov.b32 %0, 1;"); }'
    assert guard_expanded(text, host=False) == ()


BEFORE_HEADER = {
    "a body of several tokens": "#define swap own() { return 1; } void swap",
    "a macro with arguments": "#define swap(a) a",
    "one that pastes": "#define J(a, b) a##b",
    "a string": '#define swap "rdtsc"',
}


@pytest.mark.parametrize("name", BEFORE_HEADER)
def test_no_macro_writes_a_headers_lines(name: str) -> None:
    """What comes of them there is not among the candidate's own lines, so nobody would read it."""
    macro, header = f"{BEFORE_HEADER[name]}\n", "#include <algorithm>\n"
    (finding,) = guard(f"\n{macro}{header}{LAUNCHER}", "entry")
    assert finding.line == 2 and "before #include" in finding.what
    assert guard(f"{header}{macro}{LAUNCHER}", "entry") == ()


@pytest.mark.parametrize("macro", ["THREADS 256", "NOTHING", "REAL float", "STEP 0x10u"])
def test_settings_may_stand_before_headers(macro: str) -> None:
    assert guard(f"#define {macro}\n#include <algorithm>\n{LAUNCHER}", "entry") == ()


ENDLESS = {
    "calls": "a(",
    "assembly": "asm(",
    "attributes": "__attribute__((",
    "streams": "fprintf(stderr,",
    "blocks": "{",
    "launchers": "entry(",
}


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.second_tier
def test_what_nests_without_end_is_read_in_time(name: str) -> None:
    """Time that grew with the square of its length would be minutes."""
    piece = ENDLESS[name]
    text = piece * (50_000 // len(piece))
    for whole in (text, text + ")" * text.count("(") + "}" * text.count("{")):
        began = time.process_time()
        guard(f"{LAUNCHER}#if 0\n{whole}\n#endif\n", "entry")
        guard_expanded(whole, host=True)
        assert time.process_time() - began < 20


def test_what_could_be_pasted_is_found_in_time() -> None:
    stem = "gettimeofda"
    pieces = {stem[i:j] for i in range(len(stem)) for j in range(i + 2, len(stem))} - {"of"}
    names = " ".join([*pieces, *(f"q{i:x}" for i in range(20_000)), "q" * 50_000])
    began = time.process_time()
    findings = guard(f"{LAUNCHER}#define J(a, b) a##b\n#if 0\n{names}\n#endif\n", "entry")
    assert findings == () and time.process_time() - began < 15
    assert guard(f"{LAUNCHER}#define J(a, b) a##b\n#if 0\n{names} day\n#endif\n", "entry")


def test_what_is_found_is_told_in_short() -> None:
    many = guard("\n".join(["#pragma " + "a " * 10_000, *["int i = system();"] * 5_000]), "entry")
    assert len(many) == 21 and "4,982 more" in many[-1].what
    assert all(len(finding.what) < 400 for finding in many)
