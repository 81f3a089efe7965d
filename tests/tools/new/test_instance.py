"""A template or a static member function is chosen with its arguments, as callers spell it."""

from __future__ import annotations

import pytest

from astra_chat.tools.new.create import draft_of
from astra_chat.tools.new.source import template_parameters
from astra_chat.tools.task.binding import Binding
from astra_vgpu.ground.errors import BadInput

TENSORS = """
namespace own {
using real = float;
template <typename T, int N> __global__ void scale_kernel(T* out, const T* x, int n) {}
template <typename T, int N = 4>
struct Scale {
  static constexpr int kThreads = N;
 public:
  static void run(tvm::ffi::TensorView out, tvm::ffi::TensorView x) {
    SymbolicSize R = {"rows"};
    TensorMatcher({R, 2 * N})  // two halves
        .with_dtype<int32_t>().verify(x);
    TensorMatcher({R, int64_t{N}}).with_dtype<T>().verify(out);
    scale_kernel<T, N><<<1, 1>>>(static_cast<T*>(out.data_ptr()), nullptr, 1);
  }
};
template <typename T> void whole(tvm::ffi::TensorView out, tvm::ffi::TensorView x) {}
}
"""
POINTERS = """
template <typename T> struct Twice {};
template <int N> __global__ void k(float* y, int n) {}
template <template <typename U> class Op, typename T, int N>
void apply(T* y, int n, cudaStream_t s) { k<N><<<n, 32, 0, s>>>(y, n); }
void apply(int n) {}
"""


def test_a_member_of_a_class_template_takes_its_arguments() -> None:
    draft = draft_of(TENSORS, "mine", "Scale<real, 8>::run")
    assert draft.binding["function"] == "own::Scale<float, 8>::run"
    assert {t.name: (t.dtype, t.shape) for t in draft.tensors} == {
        "out": ("T", ("rows", "8")),
        "x": ("int32", ("rows", "2*8")),
    }
    assert draft.variables == {"T": ("float32",)}
    assert draft.baseline == TENSORS


def test_a_template_over_a_template_and_a_number_is_called_as_one_overload() -> None:
    draft = draft_of(POINTERS, "mine", "apply<Twice, float, 3>")
    assert draft.binding == {
        "function": "apply<Twice, float, 3>",
        "args": ["y", "n", {}],
        "signature": "void (float *, int, cudaStream_t)",
    }
    assert draft.dims == ("n",)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, r"own::Scale<T, N>::run, own::whole<T>; choose one .*--op"),
        ("own::nobody<float>", "there is no function 'own::nobody<float>'; it has own::Scale"),
        ("whole<float, 3>", "the template parameters of whole are typename T"),
        ("whole<T>", "'whole<T>' leaves T open: write what your program uses"),
        ("whole<float>>>run", "is not a function's name"),
    ],
)
def test_what_is_no_function_of_the_file_is_named(name: str | None, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        draft_of(TENSORS, "mine", name)


def test_template_parameters_have_kinds_names_and_defaults() -> None:
    head = (
        "template < template < typename U > class Op , typename T = Pair < int , 2 > , int N > void"
    )
    assert template_parameters(head) == (
        ("template < typename U > class", "Op", ""),
        ("typename", "T", "Pair < int , 2 >"),
        ("int", "N", ""),
    )


def test_a_binding_names_a_member_and_its_type_variables() -> None:
    binding = Binding.model_validate({"function": "a::K<T, 4, P<int>>::run", "args": []})
    assert binding.name == "run"
    assert binding.template_variables == ("T",)
