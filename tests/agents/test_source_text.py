"""Sources as every role sees them, and what is copied from them."""

from __future__ import annotations

import pytest

from astra_chat.agents.idle_functions import Idle
from astra_chat.agents.source_text import INDENT, listing, spans, without_numbers
from astra_chat.models.script import load_script, scripted_names
from astra_chat.tools.task.folder import find_task

SOURCE = """// A comment.
#include <stdint.h>

template <typename T>
__device__ float read(T value);
template <>
__device__ float read<float>(float value) {
  return value;
}

// Kernels.
__global__ void kernel(float* out) {
  // Inside.
  if (out) {
    out[0] = 1.0f;  // kept
  }
}
"""
KERNELS = {
    f"{task} {name}": source
    for task in scripted_names()
    for name, source in load_script(find_task(task)).sources.items()
}


def test_numbers_are_those_of_the_file_and_comments_are_blank_lines() -> None:
    assert listing(SOURCE).splitlines()[1:-1] == [
        "",
        "#include <stdint.h>",
        "",
        "template <typename T>",
        "__device__ float read(T value);",
        "template <>",
        "__device__ float read<float>(float value) {",
        "  return value;",
        "}",
        " //10",
        "",
        "__global__ void kernel(float* out) {",
        "",
        "  if (out) {",
        "    out[0] = 1.0f;  // kept",
        "  }",
        "}",
    ]


@pytest.mark.parametrize("name", KERNELS)
def test_a_listing_holds_the_lines_of_a_real_kernel(name: str) -> None:
    lines = KERNELS[name].splitlines()
    shown = without_numbers(listing(KERNELS[name])).splitlines()[1:-1]
    assert [line.lstrip() for line in shown] == [
        "" if line.lstrip().startswith("//") else line.lstrip() for line in lines
    ]
    for one, line in zip(shown, lines, strict=True):
        indent = len(line) - len(line.lstrip())
        assert not one or len(one) - len(one.lstrip()) == min(indent, INDENT)


def test_idle_lines_are_one_that_says_so() -> None:
    shown = listing(SOURCE, [Idle(1, 2), Idle(6, 10, ("read",))]).splitlines()[1:-1]
    assert shown[:5] == [
        "// lines 1 to 2: headers",
        "",
        "template <typename T>",
        "__device__ float read(T value);",
        "// lines 6 to 10: read, not run in any timed case",
    ]
    assert len(shown) == len(SOURCE.splitlines()) - 5


def test_what_is_indented_far_is_found_again() -> None:
    source = "f(int a,\n               int b, // c\n               int d);\n"
    shown = "\n".join(listing(source).splitlines()[1:-1])
    assert shown == f"f(int a,\n{' ' * INDENT}int b, // c\n{' ' * INDENT}int d);"
    assert spans(shown, source) == [(0, len(source) - 1)]
    ((start, end),) = spans("int b, // c\n" + " " * INDENT + "int d", source)
    assert source[start:end] == "int b, // c\n               int d"
    ((start, end),) = spans(" " * INDENT + "int d);", source)
    assert source[start:end].lstrip() == "int d);"


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_copied_from_a_listing_is_found_in_the_source(name: str) -> None:
    source = KERNELS[name]
    shown = listing(source).splitlines()[1:-1]
    for first in range(0, len(shown) - 12, 12):
        copied = "\n".join(shown[first : first + 12])
        ((start, end),) = spans(copied, source)
        assert source.count("\n", 0, start) == first and source.count("\n", start, end) == 11


def test_who_edits_a_user_s_file_sees_its_indentation() -> None:
    source = "f(int a,\n               int b);  // c\n// A comment.\n"
    assert listing(source, comments=True).splitlines()[1:-1] == source.splitlines()


def test_what_stands_there_as_it_is_comes_first() -> None:
    source = "int a; //1\nint b;\nint a;\n"
    assert spans("int a; //1", source) == [(0, 10)]
    assert len(spans("int a;", source)) == 2
    assert spans("int b; //2", source) == [(11, 17)]
    assert spans("", source) == spans("int c;", source) == []


def test_a_comment_between_copied_lines_belongs_to_the_place() -> None:
    source = "int a;\n// More.\n  // And.\nint b;\nint c;\n"
    ((start, end),) = spans("int a;\n\n\nint b; //4", source)
    assert source[start:end] == "int a;\n// More.\n  // And.\nint b;"


def test_a_triton_source_has_its_own_comments_and_keeps_its_indentation() -> None:
    deep = " " * 20 + "x = n //8\n"
    source = "import triton\n# Why.\n" + 'a = "// no"\n' * 6 + deep + "y = 1\n"
    shown = "\n".join(listing(source).splitlines()[1:-1])
    assert shown.splitlines()[1] == "" and shown.endswith(f"{deep}y = 1 #10")
    assert without_numbers(shown, source) == shown.removesuffix(" #10")
    assert spans("y = 1 #10", source) == [(source.index("y = 1"), len(source) - 1)]
