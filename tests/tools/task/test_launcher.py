"""The launcher's prototype and the ctypes call that fits it."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from astra_chat.tools.task.folder import find_task
from astra_chat.tools.task.launcher import call_values, prototype
from astra_chat.tools.types import Case


def test_prototype_of_silu() -> None:
    assert prototype(find_task("silu_and_mul")) == (
        'extern "C" cudaError_t silu_and_mul(void* out, const void* input, '
        "int64_t tokens, int64_t d, int dtype, cudaStream_t stream)"
    )


def test_a_call_reaches_c_as_the_prototype_says(tmp_path: Path) -> None:
    """A host function with the same prototype writes down what it was given."""
    source = tmp_path / "probe.cpp"
    header = "#include <cstdint>\ntypedef int cudaError_t; typedef void* cudaStream_t;\n"
    body = "{ auto o = (int64_t*)out; o[0] = tokens; o[1] = d; o[2] = dtype; return 7; }\n"
    source.write_text(header + prototype(find_task("silu_and_mul")) + body)
    library = tmp_path / "probe.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, source], check=True)
    seen = (ctypes.c_int64 * 3)()
    case = Case(dims={"tokens": 5, "d": 1 << 33}, dtype="bfloat16")
    values = call_values(find_task("silu_and_mul"), case, [ctypes.addressof(seen), 0], 0)
    assert ctypes.CDLL(str(library)).silu_and_mul(*values) == 7
    assert list(seen) == [5, 1 << 33, 2]


def test_strides_of_strided_arguments_follow_the_dims() -> None:
    task = find_task("silu_and_mul")
    strided = tuple(arg.model_copy(update={"strides": ("free", "1")}) for arg in task.args)
    assert "int64_t d, int64_t out_stride, int64_t input_stride, int dtype" in prototype(
        task.model_copy(update={"args": strided})
    )
