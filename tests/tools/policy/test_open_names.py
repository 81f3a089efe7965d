"""Tests of macros: what another build may define is refused, what is settled is not."""

from __future__ import annotations

import pytest

from astra_chat.tools.policy.source_guard import guard

LAUNCHER = """
extern "C" cudaError_t entry(void* out, cudaStream_t stream) {
  return cudaGetLastError();
}
"""
REFUSED = {
    "a name of another build": "#ifdef TORCH_EXTENSION_NAME\n#endif",
    "a name that nothing defines": "#ifdef FOO\n#endif",
    "its value": "#if FOO\n#endif",
    "defined": "#if defined(FOO) || 1\n#endif",
    "elif": ("#if 1\n#elif FOO\n#endif"),
    "defined in a branch that is never taken": ("#if 0\n#define FOO\n#endif\n#ifdef FOO\n#endif"),
    "defined beside what depends on it": (
        "#ifndef FOO\n#define FOO\n#define SAFE\n#endif\n#ifdef SAFE\n#endif"
    ),
    "defined in a macro": ("#define T defined(FOO)\n#if T\n#endif"),
    "its value by a macro": ("#define T FOO\n#if T\n#endif"),
    "pasted": ("#define C(a,b) a##b\n#if C(FO,O)\n#endif"),
    "assertions": "#ifdef NDEBUG\n#endif",
    "a value for what builds define": ("#ifndef NDEBUG\n#define NDEBUG 0\n#endif"),
    "defined later": ("#ifdef FOO\n#endif\n#define FOO"),
    "code beside its end": ("#ifdef FOO\nint x;\n#undef FOO\n#endif"),
    "beside a documented name": ("#if 0\n#else\n#endif\n#if FOO > 1 && __CUDA_ARCH__\n#endif"),
}
ACCEPTED = {
    "architecture and versions": (
        "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900\n"
        "#endif\n"
        "#if CUDART_VERSION >= 12000\n"
        "#elif __CUDACC_VER_MAJOR__ > 12\n"
        "#endif"
    ),
    "a value that may be set": ("#ifndef TILE\n#define TILE 64\n#endif\n#if TILE > 32\n#endif"),
    "defined before": ("#define FOO 1\n#ifdef FOO\n#endif\n#if FOO && defined(FOO)\n#endif"),
    "defined for some GPU": ("#if __CUDA_ARCH__ >= 900\n#define HAS 1\n#endif\n#ifdef HAS\n#endif"),
    "defined in every branch": ("#if 1\n#define A 1\n#else\n#define A 0\n#endif\n#if A\n#endif"),
    "switches of CUDA that are taken away": (
        "#ifdef __CUDA_NO_HALF_OPERATORS__\n#undef __CUDA_NO_HALF_OPERATORS__\n#endif"
    ),
    "language and compiler": (
        "#if __cplusplus >= 201703L && defined(__cpp_concepts)\n"
        "#endif\n"
        "#if __has_cpp_attribute(nodiscard) && __GNUC__ > 5\n"
        "#endif"
    ),
    "other platforms": ("#ifndef USE_ROCM\n#else\n#endif\n#if !defined(__HIPCC__)\n#endif"),
    "a macro that compares versions": (
        "#define AT_LEAST(v) (CUDART_VERSION >= (v))\n#if AT_LEAST(12000)\n#endif"
    ),
    "defined in a branch that is taken": (
        "#define D 1\n#if D\n#define E 2\n#if E > 1\n#endif\n#endif"
    ),
    "code that is left out": ("#if 0\nint x;\n#endif"),
    "undefined before": ("#undef FOO\n#if FOO\n#endif"),
    "limits of the C library": "#if UINT_MAX == 0xffffffffu && FLT_DIG > 5\n#endif",
    "by nvcc or not": ("#pragma unroll\n#ifdef __CUDACC__\n#endif"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_another_build_may_define_is_refused(name: str) -> None:
    found = guard(f"{REFUSED[name]}\n{LAUNCHER}", "entry")
    assert found
    assert all("another build" in one.what or "some builds" in one.what for one in found), found


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_is_documented_or_settled_is_accepted(name: str) -> None:
    assert guard(f"{ACCEPTED[name]}\n{LAUNCHER}", "entry") == ()


def test_a_task_s_header_settles_names() -> None:
    source = f'#include "rows.cuh"\n#if ROWS > 2\n#endif\n{LAUNCHER}'
    assert guard(source, "entry", {"rows.cuh": "#define ROWS 4\n"}) == ()
    (finding,) = guard(source, "entry", {"rows.cuh": "int rows;\n"})
    assert finding.line == 2 and finding.what.startswith("ROWS: another build may define it")


def test_an_include_guard_may_stand_around_all_code() -> None:
    whole = f"#ifndef KERNEL_CU\n#define KERNEL_CU\n{LAUNCHER}#endif\n"
    assert guard(f"#include <cstdio>\n{whole}", "entry") == ()
    assert guard(f"{whole}int x;\n", "entry")
    assert guard(whole.replace("#endif", "#else\n#endif"), "entry")
