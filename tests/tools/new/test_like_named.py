"""Parameters of the same name, on the way from a function to its kernels."""

from __future__ import annotations

from astra_chat.tools.new.like_named import LikeNamed, element
from astra_chat.tools.new.source import code, functions, pieces

HEADER = """
template <typename T>
__global__ void scale(T* __restrict__ out,  // [rows, d]
                      const T* x_ptr, const float* scales) { out[0] = x_ptr[0]; }
__global__ void other(int* x, long* out) { x[0] = 1; }
"""
SOURCE = """
#define GO(T) scale<T><<<1, 1>>>(out, x, scales)
void go(void* out, void* x, float* scales) { GO(float); }
"""


def test_only_what_a_function_reaches_counts() -> None:
    (go,) = (f for f in functions(code(pieces(SOURCE))) if f.name == "go")
    named = LikeNamed([SOURCE, HEADER], go)
    out, x = named.of("out_"), named.of("x")
    assert out.constant is False and x.constant is True
    assert out.comments == [("rows", "d")] and out.elements == [], "T is anything"
    assert named.of("scales").elements == ["float"]
    assert named.of("bias").constant is None


def test_elements() -> None:
    assert element("const int64_t * __restrict__") == "int64_t"
    assert element("unsigned char [ ]") == "unsigned char"
