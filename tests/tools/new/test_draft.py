"""Dtypes, likely shapes and wrapped heads of a draft."""

from __future__ import annotations

import pytest

from astra_chat.tools.cpp_heads import COLUMNS, head
from astra_chat.tools.new.draft import (
    USUAL,
    Draft,
    Tensor,
    access_of,
    dtype_named,
    is_no_size,
    variables_of,
)
from tests.tools.new.samples import draft


@pytest.mark.parametrize(
    ("given", "variables", "known"),
    [
        (["float32"], {"T": ("float32",)}, True),
        (["float32", "bfloat16"], {"T": ("bfloat16",)}, True),
        (["float32", "T"], {"T": ("float16", "bfloat16", "float32")}, False),
        (["float16", "int8", "int64"], {"T": ("float16",)}, True),
        (["int32", "bool"], {}, True),
    ],
)
def test_variables(given: list[str], variables: dict[str, tuple[str, ...]], known: bool) -> None:
    tensors = [Tensor("x", "read", dtype) for dtype in given]
    assert variables_of(tensors)[1:] == (variables, known)


def test_the_main_dtype_becomes_the_variable() -> None:
    tensors = [Tensor("x", "read", d) for d in ("float16", "float32", "bfloat16")]
    assert [t.dtype for t in variables_of(tensors)[0]] == ["T", "float32", "bfloat16"]


@pytest.mark.parametrize(
    ("word", "dtype"),
    [
        ("c10::Half", "float16"),
        ("std::int64_t", "int64"),
        ("unsigned char", "uint8"),
        ("__nv_fp8_e4m3", "float8_e4m3fn"),
        ("at::Float8_e5m2", "float8_e5m2"),
        ("Foo", None),
    ],
)
def test_c_types(word: str, dtype: str | None) -> None:
    assert dtype_named(word) == dtype


@pytest.mark.parametrize(
    ("name", "access"),
    [("q", "readwrite"), ("y", "write"), ("key_cache", "readwrite"), ("topk_ids_out", "write")],
)
def test_a_pointer_to_what_is_not_const(name: str, access: str) -> None:
    found, doubt = access_of(name)
    assert found == access and doubt, "launches decide"


def test_numbers_and_sizes_by_name() -> None:
    assert is_no_size("philox_seed") and is_no_size("kv_offset")
    assert not is_no_size("hidden") and not is_no_size("topk")


def test_several_variables_are_told_apart() -> None:
    found = draft("embedding_template.cu")
    assert found.parameters[-3:] == ("int dtype", "int i_dtype", "cudaStream_t stream")
    assert found.variables == {"T": USUAL, "I": ("int32", "int64")}


def test_a_weight_has_one_element_a_column() -> None:
    found = draft("rms_norm_torch.cu")
    by_name = {t.name: found.shape_of(t) for t in found.tensors}
    assert by_name["weight"] == ("hidden",) and by_name["out"] == ("rows", "hidden")


def test_heads_are_wrapped() -> None:
    parameters = [f"const void* argument_{i}" for i in range(9)]
    lines = head('extern "C" cudaError_t f', parameters, " {")
    assert len(lines) > 1 and all(len(line) <= COLUMNS for line in lines)
    assert " ".join(" ".join(lines).split()).replace("( ", "(") == (
        f'extern "C" cudaError_t f({", ".join(parameters)}) {{'
    )


@pytest.mark.parametrize("rank", [1, 2, 3, 5, 6])
def test_a_guessed_shape_has_the_rank_of_its_strides(rank: int) -> None:
    """The name of a weight says one axis, but its strides say how many."""
    dims, strides = ("batch", "dim", "seqlen", "width", "length"), ("free",) * (rank - 1) + ("1",)
    weight = Tensor("weight", "read", strides=strides)
    shape = Draft("f", (weight,), dims, (), {}, True, "a file").shape_of(weight)
    assert len(shape) == rank and shape[-1] == "length" and len({*shape} - {"1"}) == min(rank, 5)
