"""Sizes, shapes, dtypes and writers are read from the body of a host function."""

from __future__ import annotations

import pytest

from astra_chat.tools.new.host_function import Facts, facts_of
from astra_chat.tools.new.source import code, functions, pieces


def facts(body: str, kernel: str = "") -> Facts:
    source = f"{kernel}\nat::Tensor f(at::Tensor x, at::Tensor y) {{ {body} }}"
    plain = code(pieces(source))
    return facts_of(functions(plain)[-1], plain)


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("int n = x.size(0), k; const int64_t d = x.size(1);", ()),
        ("int n = x.size(0); const int64_t d = x.size(1);", ("n", "d")),
        ("auto d = x.size(-1); auto n = x.numel() / d;", ("n", "d")),
        ("auto n = x.sizes()[0]; unsigned d = x.size( -1 ) / 2;", ("n", "2*d")),
        ("int64_t n = x.shape()[0]; int64_t d = x->shape[1];", ("n", "d")),
        ("int d = static_cast<int>(x.size(1)); int n = (int)x.size(0);", ("n", "d")),
        ("const int64_t n = x.numel();", ("n",)),
    ],
)
def test_shapes(body: str, shape: tuple[str, ...]) -> None:
    found = facts(body)
    assert found.shapes.get("x", ()) == shape
    if shape:
        assert tuple(e.split("*")[-1] for e in shape) == tuple(found.dims)


def test_results_have_the_names_that_are_returned() -> None:
    body = "auto out = torch::empty_like(x); auto z = at::empty({3}); "
    assert facts(f"{body} return out;").returned == ["out"]
    assert facts(f"{body} return std::make_tuple(out, z);").returned == ["out", "z"]
    listed = "std::vector<at::Tensor> all = {out, z}; return all;"
    assert facts(f"{body} {listed}").returned == ["out", "z"]


def test_branches_on_the_dtype_are_all_told() -> None:
    found = facts("k(x.data_ptr<at::Half>()); k(x.data_ptr<at::BFloat16>()); y.data_ptr<float>();")
    assert found.branches == ("float16", "bfloat16") and found.elements["y"] == ["float32"]


@pytest.mark.parametrize(
    ("macro", "dtypes"),
    [
        ('AT_DISPATCH_FLOATING_TYPES(t, "f", [&] {});', ("float32",)),
        ('AT_DISPATCH_FLOATING_TYPES_AND_HALF(t, "f", [&] {});', ("float16", "float32")),
        (
            'AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, t, "f", [&] {});',
            ("float16", "bfloat16", "float32"),
        ),
    ],
)
def test_dispatch_macros(macro: str, dtypes: tuple[str, ...]) -> None:
    assert facts(macro.replace('t, "', 'x.scalar_type(), "')).variables == {"scalar_t": dtypes}


def test_dispatches_inside_dispatches_name_their_types_and_tensors() -> None:
    body = (
        'VLLM_DISPATCH_HALF_TYPES(x.scalar_type(), "f", [&] {'
        ' VLLM_DISPATCH_FP8_TYPES(y.scalar_type(), "g", [&] { fp8_t v;'
        " DISPATCH_DLPACK_IDTYPE_TO_CTYPE(z.dtype(), IdType, [&] { return true; }); }); });"
    )
    found = facts(body)
    assert found.variables == {
        "scalar_t": ("float16", "bfloat16"),
        "fp8_t": ("float8_e4m3fn",),
        "IdType": ("int32", "int64"),
    }
    assert found.switched == {"x": "scalar_t", "y": "fp8_t", "z": "IdType"}


def test_strides_that_are_asked_for() -> None:
    found = facts("int64_t a = x.stride(0); f(y.stride(-2), y.strides()[1]);")
    assert found.strides == {"x": {0}, "y": {-2, 1}}


def test_a_macro_that_does_not_say_its_dtypes() -> None:
    found = facts("DISPATCH_PYTORCH_DTYPE_TO_CTYPE(x.scalar_type(), c_type, [&] { return true; });")
    assert found.variables == {"c_type": ("float16", "bfloat16")} and found.guessed


@pytest.mark.parametrize(
    ("macro", "dtypes"),
    [
        ("DISPATCH_TO_CTYPE_FP16_FP8", ("float16", "bfloat16", "float8_e4m3fn")),
        ("DISPATCH_FP8_TYPES", ("float8_e4m3fn",)),
    ],
)
def test_a_macro_that_names_halves_and_codes(macro: str, dtypes: tuple[str, ...]) -> None:
    assert facts(f"{macro}(x.dtype(), c_type, [&] {{ }});").variables == {"c_type": dtypes}
