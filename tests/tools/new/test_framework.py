"""Exported functions of torch and tvm-ffi files are found, whichever way they are registered."""

from __future__ import annotations

import pytest

from astra_chat.tools.errors import BadInput
from astra_chat.tools.new.create import draft_of
from astra_chat.tools.new.framework import exports
from astra_chat.tools.new.source import code, functions, pieces
from tests.tools.new.samples import draft

BODY = "void f(at::Tensor x, int64_t n) {}\nvoid g(at::Tensor x, int64_t n) {}\n"


def exported(source: str) -> list[tuple[str, str]]:
    plain = code(pieces(source))
    return [(e.name, e.function.name) for e in exports(plain, functions(plain))]


@pytest.mark.parametrize(
    ("registration", "names"),
    [
        ('PYBIND11_MODULE(x, m) { m.def("a", &f, "doc"); m.def("b", g); }', ["f", "g"]),
        ('TORCH_LIBRARY(n, m) { m.def("a(Tensor x, int n) -> ()", &f); }', ["f"]),
        ('TORCH_LIBRARY(n, m) { m.def("a(Tensor x, int n) -> ()"); m.impl("a", c10::kCUDA, &g); }',
         ["g"]),
        ('TORCH_LIBRARY_IMPL(n, CUDA, m) { m.impl("n::a", TORCH_FN(f)); }', ["f"]),
        ("TVM_FFI_DLL_EXPORT_TYPED_FUNC(a, ns::g);", ["g"]),
        ('TVM_FFI_STATIC_INIT_BLOCK() { refl::GlobalDef().def("n.a", f).def("b", &g); }',
         ["f", "g"]),
        ('PYBIND11_MODULE(x, m) { m.def("a", &elsewhere); }', []),
    ],
)  # fmt: skip
def test_registrations(registration: str, names: list[str]) -> None:
    found = exported(BODY + registration)
    assert [function for _, function in found] == names
    assert [name for name, _ in found] == ["a", "b"][: len(names)]


def test_a_torch_extension_is_understood() -> None:
    found = draft("rms_norm_torch.cu")
    assert [(t.name, t.written, t.shape) for t in found.tensors] == [
        ("out", True, ("rows", "hidden")), ("input", False, ("rows", "hidden")),
        ("weight", False, ()),
    ]  # fmt: skip
    assert found.dims == ("rows", "hidden") and found.dtypes_known
    assert found.dtypes == ("float16", "bfloat16", "float32")
    assert [(s.name, s.value) for s in found.scalars] == [("eps", "1e-6")]


def test_an_operator_of_a_library_is_understood() -> None:
    found = draft("gate_library.cu")
    assert [(t.name, t.written, t.shape, found.arg_dtype(t)) for t in found.tensors] == [
        ("out", True, (), "T"), ("input", False, ("tokens", "2*d"), "T"),
        ("scale", False, (), "float32"),
    ]  # fmt: skip
    assert [(s.name, s.type, s.value) for s in found.scalars] == [("fast", "int64_t", "False")]


def test_a_tvm_ffi_file_is_understood() -> None:
    found = draft("add_tvm.cu")
    assert [(t.name, t.written) for t in found.tensors] == [
        ("x", False), ("y", False), ("out", True),
    ]  # fmt: skip
    assert found.dims == ("n",) and found.dtypes == ("float16",)


def test_a_count_of_known_sizes_is_no_dim_and_one_line_declares_several() -> None:
    found = draft("gelu_library.cu")
    assert found.dims == ("rows", "cols") and found.dtypes == ("float16", "bfloat16")
    assert [(t.name, t.written, t.shape) for t in found.tensors] == [
        ("x", True, ("rows", "cols")), ("bias", False, ()),
    ]  # fmt: skip
    assert "const int64_t n = (rows * cols);" in found.baseline


def test_a_registration_block_of_tvm_ffi() -> None:
    found = draft("rope_tvm_block.cu")
    assert found.dims == ("tokens", "heads", "d") and found.dtypes == ("bfloat16",)
    assert [(t.name, t.written, t.shape, found.arg_dtype(t)) for t in found.tensors] == [
        ("q", False, ("tokens", "heads", "d"), "T"), ("turns", False, (), "float32"),
        ("out", True, (), "T"),
    ]  # fmt: skip
    assert "using namespace" not in found.baseline, "an alias of the framework's is none of ours"


def test_copies_and_variables_are_seen_through() -> None:
    found = draft("muladd_library.cu")
    assert [(t.name, t.written, t.shape) for t in found.tensors] == [
        ("result", True, ("count",)), ("a", False, ("count",)), ("b", False, ()),
    ]  # fmt: skip
    assert found.dtypes == ("float32",) and "contiguous()" not in found.baseline
    assert "const float* first = static_cast<const float*>(a);" in found.baseline


def test_the_schema_says_what_is_written_where_no_launch_shows_it() -> None:
    source = (
        "void f(at::Tensor x, at::Tensor z, int64_t n) { go(x, z); }\n"
        'TORCH_LIBRARY(l, m) { m.def("f(Tensor x, Tensor(a!) z, int n) -> ()", &f); }'
    )
    assert [t.written for t in draft_of(source, "mine", None).tensors] == [False, True]


def test_other_parameters_are_refused() -> None:
    source = BODY.replace("int64_t n", "std::vector<int64_t> n", 1)
    with pytest.raises(BadInput, match="'std::vector<int64_t> n'"):
        draft_of(f'{source}PYBIND11_MODULE(x, m) {{ m.def("a", &f); }}', "mine", None)
