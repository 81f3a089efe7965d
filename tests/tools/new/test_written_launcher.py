"""Around a kernel, or what takes structs, a plain function is written for the user to complete."""

from __future__ import annotations

import pytest

from astra_chat.tools.new.create import draft_of
from astra_chat.tools.new.source import code, functions, pieces
from astra_chat.tools.new.structs import structs_of
from astra_vgpu.ground.errors import BadInput

STRUCTS = """
struct Inner { int64_t rows, d = 4; };
struct Params final { float* out = nullptr; const void *x; Inner inner; float scale{1};
  int sizes[3]; __host__ bool has() const { return x != nullptr; } };
class Context { public: explicit Context(int device); void* stream(); };
struct block { uint8_t codes[16]; };
template <typename T, int N> __global__ void k(T* out, const block* x, int rows) { out[0] = rows; }
"""
RUN = """void run(const Params& params, Context& ctx, cudaStream_t stream) {
  k<float, 4><<<1, 1>>>(params.out, nullptr, 1); }
"""


def test_structs_are_plain_or_objects() -> None:
    found = structs_of([STRUCTS])
    assert [(f.type, f.name, f.default) for f in found.fields["Inner"]] == [
        ("int64_t", "rows", ""),
        ("int64_t", "d", "4"),
    ]
    assert [f.name for f in found.fields["Params"]] == ["out", "x", "inner", "scale"]
    assert found.objects == {"Params", "Context"} and "Context" not in found.fields


def test_the_fields_of_a_struct_become_parameters() -> None:
    found = draft_of(STRUCTS + RUN, "mine", "run")
    assert [t.name for t in found.tensors] == ["out", "x"] and found.dims == ("rows", "d")
    assert found.binding == {
        "function": "run_launcher",
        "args": ["out", "x", "rows", "d", "scale", {}],
        "launcher": "launcher.cu",
    }
    assert "params.inner.rows = rows;" in found.launcher
    assert "COMPLETE: ctx is zero-filled" in found.launcher, "nobody knows what a Context holds"


def test_structs_of_a_namespace_are_found() -> None:
    found = draft_of(f"namespace a::b {{ {STRUCTS} {RUN} }}", "mine", "run")
    assert "  using namespace ::a::b;\n  Params params{};" in found.launcher


def test_a_kernel_without_a_function_gets_one() -> None:
    found = draft_of(STRUCTS, "mine", None)
    assert [(t.name, t.dtype) for t in found.tensors] == [("out", "T"), ("x", "uint8")]
    assert found.binding["function"] == "k_launcher<T>"
    (written,) = functions(code(pieces(found.launcher)))
    assert [name for _, name, _ in written.template] == ["T"]
    assert "constexpr int N = 128;  // COMPLETE" in found.launcher
    assert "k<T, N><<<grid, block, 0, stream>>>(out, x, rows);" in found.launcher


def test_a_launcher_of_the_user_is_taken() -> None:
    own = "static void mine(float* y, int n, cudaStream_t s) { Matrix(y, n).fill(s); }"
    found = draft_of(STRUCTS, "mine", None, launcher=own)
    assert found.launcher == own and found.baseline == STRUCTS
    assert found.binding["function"] == "mine" and found.entry == "mine_launcher"


def test_what_no_launcher_can_be_written_for_is_named() -> None:
    with pytest.raises(BadInput, match="no function 'go'; it has k"):
        draft_of(STRUCTS, "mine", "go")
