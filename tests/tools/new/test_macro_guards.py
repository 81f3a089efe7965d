"""A name that a build misses leads to the macro under which the project defines it."""

from __future__ import annotations

import pytest

from astra_chat.tools.new.macro_guards import dtype_macros, guarding_macro
from astra_chat.tools.new.project import Project

HEADER = """#ifndef GUARD_H
#define GUARD_H
#if defined(ENABLE_FP8)  // Hopper
template <class T> T convert(T x) { return x; }
#else
struct Plain {};
#endif
#endif
"""
LOG = 'line 3: error: namespace "a::b" has no member "{}"'


@pytest.mark.parametrize(
    ("name", "flags", "text", "macro"),
    [
        ("convert", (), HEADER, "ENABLE_FP8"),
        ("convert", ("-DENABLE_FP8=1",), HEADER, None),
        ("convert", (), "#define ENABLE_FP8\n" + HEADER, None),
        ("Plain", (), HEADER, None),
        ("absent", (), HEADER, None),
    ],
)
def test_the_macro_around_a_definition(
    name: str, flags: tuple[str, ...], text: str, macro: str | None
) -> None:
    found = guarding_macro([LOG.format(name)], Project("", {"project/a.h": text}, defines=flags))
    assert (found.macro if found else None) == macro
    if found:
        assert "-D ENABLE_FP8" in found.hint and "project/a.h" in found.hint


DISPATCH = """#ifdef LIB_ENABLE_BF16
#if defined(LIB_ENABLE_FP8_E4M3) && !defined(USE_ROCM_FP8)
#ifndef NO_HALF_SUPPORT
#ifdef LIB_ENABLE_F16
#define LIB_ENABLE_F16
#elif defined(FP16_AVAILABLE)
#ifdef USE_FAST_MATH
#if defined(LIB_WITH_CUDA)
"""


def test_macros_for_element_types() -> None:
    project = Project("", {"project/a.h": DISPATCH}, defines=("-DFP16_AVAILABLE",))
    assert dtype_macros(project) == (
        "LIB_ENABLE_BF16",
        "LIB_ENABLE_FP8_E4M3",
        "LIB_WITH_CUDA",
    )
