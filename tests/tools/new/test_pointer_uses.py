"""What is done with a pointer is found through variables, helpers, macros and launches."""

from __future__ import annotations

import pytest

from astra_chat.tools.new.accesses import Uses
from astra_chat.tools.new.pointer_uses import Tracer
from astra_chat.tools.new.source import code, functions, pieces

HELPERS = """
template <typename T> __device__ void turn(T* head, const T* row) { head[0] = head[1] * row[0]; }
__device__ void assign(float& target, float value) { target = value; }
template <typename T> __global__ void kernel(T* out, const T* in, int* counts) {
  out[threadIdx.x] = in[threadIdx.x];
  atomicAdd(&counts[0], 1);
}
"""


def uses(body: str, parameters: str = "float* x", before: str = "") -> Uses:
    source = f"{HELPERS}{before}\nvoid f({parameters}) {{ {body} }}"
    function = functions(code(pieces(source)))[-1]
    return Tracer([source]).of(function, "x")


@pytest.mark.parametrize(
    ("body", "reads", "writes"),
    [
        ("float y = x[3];", True, False),
        ("x[3] = 1;", False, True),
        ("x[i] += 1;", True, True),
        ("++x[i];", True, True),
        ("if (x[i] == 2) {}", True, False),
        ("*x = 1;", False, True),
        ("*(x + 4) = y;", False, True),
        ("float y = *(x + 4);", True, False),
        ("float* row = x + 4; row[0] = 1;", False, True),
        ("const float* row = x + 4; f(row[0]);", True, False),
        ("auto* v = reinterpret_cast<float4*>(x); v[1] = w;", False, True),
        ("*reinterpret_cast<float4*>(&x[8]) = w;", False, True),
        ("float4 w = *(float4*)(x + 2);", True, False),
        ("float& y = x[2]; y = 3;", False, True),
        ("const float& y = x[2]; g = y;", True, False),
        ("turn(x, row);", True, True),
        ("turn(row, x);", True, False),
        ("turn<float>(x + 3, row);", True, True),
        ("assign(x[2], 1.0f);", True, True),
        ("kernel<float><<<1, 2>>>(x, y, z);", False, True),
        ("kernel<<<1, 2, 0, s>>>(y, x, z);", True, False),
        ("kernel<<<1, 2, 0, s>>>(y, z, x);", True, True),
        ("cudaLaunchKernelEx(&config, kernel<float>, x, y, z);", False, True),
        ("auto k = kernel<float>; cudaLaunchKernelEx(&config, k, x, y, z);", False, True),
        (
            "void* args[] = {&y, (void*)&x, &z}; auto k = kernel<float>;"
            " cudaLaunchKernel((void*)k, grid, block, args, 0, stream);",
            True,
            False,
        ),
        ("float y = __ldg(x + 1); vec.load(x); ", True, False),
        ("vec.store(x + 1); __stcs(x, 1.0f);", False, True),
        ("cudaMemsetAsync(x, 0, n, s);", False, True),
        ("if (x == nullptr) return;", False, False),
        ("sum += x[0].y; x[1].z = 3;", True, True),
    ],
)
def test_accesses(body: str, reads: bool, writes: bool) -> None:
    found = uses(body)
    assert (found.reads, found.writes) == (reads, writes) and not found.unclear


def test_tensors_by_their_data() -> None:
    body = "TORCH_CHECK(x.size(0) == 1); kernel<T><<<1, 2>>>(x.data_ptr<int64_t>(), y, z);"
    found = uses(body, "torch::Tensor& x")
    assert (found.reads, found.writes, found.elements) == (False, True, ["int64_t"])
    found = uses("float* y = x.value().data_ptr<float>(); y[0] = 1;", "at::Tensor x")
    assert (found.reads, found.writes) == (False, True)
    assert not uses("auto y = torch::empty_like(x);", "at::Tensor x").reads


def test_macros_with_launches() -> None:
    macro = "#define GO(T) kernel<T><<<1, 2>>>(out, static_cast<T*>(x), n)"
    assert uses("GO(float);", before=macro).reads
    assert not uses("other();", before=macro).reads


def test_what_leaves_the_files_is_unclear() -> None:
    assert uses("elsewhere(x);").unclear == {"elsewhere"}
    found = uses("again(x);", before="void again(float* x) { again(x); x[0] = 1; }")
    assert found.writes and not found.unclear and found.parameters == [("again", "x")]


def test_elements() -> None:
    assert uses("kernel<<<1, 2>>>(y, z, x);", "void* x").elements == ["int"]
