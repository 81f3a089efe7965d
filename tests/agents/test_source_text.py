"""Sources as they are shown to who does not change them."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.agents.source_text import device_lines, numbered, without_comments

SOURCE = """// A comment.
#include <stdint.h>

template <typename T>
__device__ float read(T value);
template <>
__device__ float read<float>(float value) {
  return value;
}

// Kernels.
__global__ void __launch_bounds__(128) kernel(float* out) {
  // Inside.
  if (out) {
    out[0] = 1.0f;  // kept
  }
}

extern "C" int launch(float* out) {
  kernel<<<1, 128>>>(out);
  return 0;
}
"""
KERNELS = sorted(Path(__file__).parents[2].glob("sglang_kernels/*/script/*.cu"))


def test_numbers_are_those_of_the_file_and_comments_are_left_out() -> None:
    text = numbered(SOURCE)
    assert "\n2 #include <stdint.h>\n4 template" in text
    assert "\n15     out[0] = 1.0f;  // kept\n" in text and "Inside" not in text


def test_device_code_leaves_out_the_launcher_and_specializations() -> None:
    assert device_lines(SOURCE) == set(range(12, 18))
    text = numbered(SOURCE, device_lines(SOURCE))
    assert text.startswith("```cuda\n...\n12 __global__") and text.endswith("\n17 }\n...\n```")


def test_a_source_without_device_code_is_shown_whole() -> None:
    assert device_lines("int x;\nint y;\n") == {1, 2, 3}
    assert numbered("int x;\nint y;\n", device_lines("int x;\nint y;\n")) == numbered(
        "int x;\nint y;\n"
    )


def test_unfinished_code_is_no_error() -> None:
    for text in ("__global__", "__global__ void k(", "__device__ int f() { {"):
        assert device_lines(text)


def test_lines_without_comments_are_the_files_own() -> None:
    shown = without_comments(SOURCE).splitlines()[1:-1]
    assert shown[0] == "#include <stdint.h>" and set(shown) <= set(SOURCE.splitlines())
    assert "// Kernels." not in shown


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_of_real_kernels_the_device_code_is_about_half(path: Path) -> None:
    source = path.read_text()
    lines = device_lines(source)
    heads = [i for i, line in enumerate(source.splitlines(), 1) if line.startswith("__global__")]
    assert set(heads) <= lines and len(lines) < 0.75 * source.count("\n")
