"""An extern "C" launcher is read into a contract, or refused as text."""

from __future__ import annotations

import pytest

from astra_chat.tools.new.create import draft_of
from astra_chat.tools.new.draft import USUAL, usual_in
from astra_vgpu.ground.errors import BadInput
from tests.tools.new.samples import launcher


def test_pointers_sizes_and_scalars_become_the_contract() -> None:
    source = launcher(
        "const __half* __restrict__ x, const float* w, __half* y, int rows, long long d,"
        " float eps = 1e-5f, cudaStream_t stream = 0"
    )
    found = draft_of(source, "mine", None)
    assert [(t.name, t.access, t.dtype) for t in found.tensors] == [
        ("x", "read", "T"),
        ("w", "read", "float32"),
        ("y", "write", "T"),
    ]
    assert found.dims == ("rows", "d") and found.dtypes == ("float16",)
    assert [(s.name, s.type, s.value) for s in found.scalars] == [("eps", "float", "1e-5f")]
    assert found.baseline == source, "the author's file stays as it is"
    assert found.binding == {"function": "go", "args": ["x", "w", "y", "rows", "d", "eps", {}]}


def test_a_launcher_that_fits_is_kept() -> None:
    source = launcher(
        "void *y, const void * x, std::int64_t n, float a, int dtype, cudaStream_t s",
        "cudaError_t",
        "return cudaSuccess;",
    )
    found = draft_of(source, "mine", None)
    assert found.entry == "go" and not found.variables_known
    assert found.baseline == source and not found.binding


def test_a_dtype_code_for_each_type_variable() -> None:
    parameters = (
        "void* out, const void* x, const void* positions, int64_t n{}, int dtype, int i_dtype,"
        " cudaStream_t stream"
    )
    source = launcher(parameters.format(""), "cudaError_t", "return cudaSuccess;")
    found = draft_of(source, "mine", None)
    assert [t.dtype for t in found.tensors] == ["T", "T", "I"] and found.dims == ("n",)
    assert found.variables == {"T": USUAL, "I": ("int32", "int64")}
    assert found.baseline == source, "it is the contract's launcher"
    only = parameters.replace(" int dtype,", "").format(", bool neg")
    found = draft_of(launcher(only, "cudaError_t", "return cudaSuccess;"), "mine", None)
    assert {t.dtype for t in found.tensors} == {"I"} and list(found.variables) == ["I"]


def test_a_code_of_a_dtype_and_names_in_capitals() -> None:
    source = launcher("void* Out, int numRows, int dtype, cudaStream_t stream")
    found = draft_of(source, "mine", None)
    assert [t.name for t in found.tensors] == ["out"] and found.dims == ("num_rows",)
    assert found.binding["args"] == ["out", "num_rows", {"code": "T"}, {}]


def test_a_template_is_called_by_the_dtype_of_a_case() -> None:
    source = (
        "namespace ns {\ntemplate <typename scalar> __global__ void k(scalar* y) { y[0] = 1; }\n"
        "template <typename scalar> static void go(scalar* y, int n, scalar a, cudaStream_t s) {\n"
        "  k<scalar><<<n, 1, 0, s>>>(y); }\n}\n"
    )
    found = draft_of(source, "mine", None)
    assert found.binding == {"function": "ns::go<T>", "args": ["y", "n", "a", {}]}


def test_a_block_that_callers_choose_is_a_number_and_no_size() -> None:
    source = (
        "__global__ void k(float* y, int n) { y[0] = n; }\n"
        "void inner(float* y, int n, int width) { k<<<n / width, width>>>(y, n); }\n"
        "void go(float* y, int n, const int width) { inner(y, n, width); }\n"
    )
    found = draft_of(source, "mine", None)
    assert found.dims == ("n",)
    assert [(s.name, s.value) for s in found.scalars] == [("width", "256")]


def test_the_entry_is_no_name_of_a_header_that_no_included_file_is_near() -> None:
    source = launcher("float* y, int n, cudaStream_t s")
    found = draft_of(source, "mine", None, {"project/far.h": "struct own* mine(int);"})
    assert found.entry == "mine_launcher"


def test_a_stride_belongs_to_the_tensor_of_the_longest_name() -> None:
    source = launcher(
        "const float* key, float* key_cache, int rows, int d, int key_stride, int key_cache_stride,"
        " cudaStream_t s"
    )
    found = draft_of(source, "m", None)
    assert [t.stride_names for t in found.tensors] == [("key_stride",), ("key_cache_stride",)]
    assert found.dims == ("rows", "d")


@pytest.mark.parametrize(
    ("types", "dtypes"),
    [
        ("__half* y; __nv_bfloat16* x;", ("float16", "bfloat16")),
        ("f<half>(); f<float>();", ("float16", "float32")),
        ("int half = n / 2; float* sums;", USUAL),
    ],
)
def test_dtypes_are_guessed_from_those_that_the_source_names(
    types: str, dtypes: tuple[str, ...]
) -> None:
    assert usual_in(["// no type", types]) == dtypes


def test_a_row_stride_belongs_to_its_tensor() -> None:
    source = launcher("float* y, const float* x, int rows, int d, int x_stride, cudaStream_t s")
    found = draft_of(source, "mine", None)
    assert found.dims == ("rows", "d") and [t.strides for t in found.tensors] == [(), ("free", "1")]
    assert found.parameters[-3:] == ("int64_t x_stride", "int dtype", "cudaStream_t stream")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ("float** rows, int n", "'float \\* \\* rows'"),
        ("float* y, Shape shape", "'Shape shape'"),
        ("float* y, cudaStream_t s", "no size"),
        ("const float* y, int n", "no tensor to write its result to"),
    ],
)
def test_what_no_contract_holds_is_refused(
    parameters: str, words: str, tmp_path, monkeypatch
) -> None:  # type: ignore[no-untyped-def]
    from astra_chat.tools.new.create import new_task

    monkeypatch.chdir(tmp_path)
    (tmp_path / "go.cu").write_text(launcher(parameters))
    with pytest.raises(BadInput, match=words):
        new_task("mine", [tmp_path / "go.cu"])
    assert not (tmp_path / "mine").exists()


def test_a_method_is_no_launcher() -> None:
    body = "k<<<n, 1>>>(y); "
    source = (
        f"__global__ void k(float* y) {{ y[0] = 1; }}\nvoid M::go(float* y, int n) {{ {body} }}\n"
    )
    found = draft_of(source, "mine", None)
    assert found.origin == "the launcher k_launcher", "one is written around the kernel"


def test_an_integer_without_a_name_is_ignored() -> None:
    source = launcher("void* y, const void* x, int64_t n, int, cudaStream_t s", "cudaError_t")
    assert draft_of(source, "mine", None).baseline == source, "it fits as it is"
    found = draft_of(launcher("float* y, int n, int, cudaStream_t s"), "mine", None)
    assert found.dims == ("n",) and found.binding["args"] == ["y", "n", 0, {}]
