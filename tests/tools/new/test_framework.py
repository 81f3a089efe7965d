"""Exported functions of torch and tvm-ffi files are found, whichever way they are registered."""

from __future__ import annotations

import pytest

from astra_chat.tools.new.framework import exports, has_own_tensors
from astra_chat.tools.new.source import code, functions, pieces

BODY = "void f(at::Tensor x, int64_t n) {}\nvoid g(at::Tensor x, int64_t n) {}\n"


def exported(source: str) -> list[tuple[str, str]]:
    plain = code(pieces(source))
    return [(e.name, e.function.name) for e in exports(plain, functions(plain))]


@pytest.mark.parametrize(
    ("registration", "names"),
    [
        ('PYBIND11_MODULE(x, m) { m.def("a", &f, "doc"); m.def("b", g); }', ["f", "g"]),
        ('TORCH_LIBRARY(n, m) { m.def("a(Tensor x, int n) -> ()", &f); }', ["f"]),
        (
            'TORCH_LIBRARY(n, m) { m.def("a(Tensor x, int n) -> ()"); '
            'm.impl("a", c10::kCUDA, &g); }',
            ["g"],
        ),
        ('TORCH_LIBRARY_IMPL(n, CUDA, m) { m.impl("n::a", TORCH_FN(f)); }', ["f"]),
        (
            'TORCH_LIBRARY_IMPL_EXPAND(n, CUDA, m) { m.impl("a", &f); }'
            'TORCH_LIBRARY_IMPL_EXPAND(n, Meta, m) { m.impl("a", &g); }',
            ["f"],
        ),
        ("TVM_FFI_DLL_EXPORT_TYPED_FUNC(a, ns::g);", ["g"]),
        (
            'TVM_FFI_STATIC_INIT_BLOCK() { refl::GlobalDef().def("n.a", f).def("b", &g); }',
            ["f", "g"],
        ),
        ('PYBIND11_MODULE(x, m) { m.def("a", &elsewhere); }', []),
    ],
)
def test_registrations(registration: str, names: list[str]) -> None:
    found = exported(BODY + registration)
    assert [function for _, function in found] == names
    assert [name for name, _ in found] == ["a", "b"][: len(names)]


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("class Tensor {\n", True),
        ("namespace n {\n  struct Tensor final : Base\n  {\n", True),
        ("class Tensor;\nstruct Tensor* f(struct Tensor x) {", False),
        ("template <class Tensor>\nvoid f(Tensor x) {", False),
        ("struct TensorShape {", False),
    ],
)
def test_a_tensor_class_of_the_projects(text: str, own: bool) -> None:
    assert has_own_tensors(["", text]) == own
