"""Shapes in comments and conditions in checks are read as they are written."""

from __future__ import annotations

import pytest

from astra_chat.tools.new.source import code, functions, pieces
from astra_chat.tools.new.stated import Stated, extent, stated

SOURCE = """
// Rotates in place.
// cache: [max_position, rot_dim]
void f(
    torch::Tensor& positions,  // [batch, seq] or [num_tokens]
    torch::Tensor& query,      // [batch, seq, heads * head_size] or
                               // [num_tokens, heads * head_size]
    const torch::Tensor& cache, int64_t head_size,
    at::Tensor k /* (num_blocks, page_size, head_size/x, x) */,
    float eps) {  // 1e-6 (usually, or so)
  %s
}
"""


def read(body: str = "") -> Stated:
    source = SOURCE % body
    plain = code(pieces(source))
    return stated(functions(plain)[-1], source, plain)


def test_comments() -> None:
    assert read().comments == {
        "positions": [("batch", "seq"), ("num_tokens",)],
        "query": [("batch", "seq", "heads*head_size"), ("num_tokens", "heads*head_size")],
        "cache": [("max_position", "rot_dim")],
        "k": [("num_blocks", "page_size", "head_size//x", "x")],
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [("2 * d", "2*d"), ("...", "..."), ("D / 8", "d//8"), ("a sum of b", ""), ("x.size(0)", "")],
)
def test_extents(text: str, found: str) -> None:
    assert extent(text) == found


@pytest.mark.parametrize(
    ("check", "field", "value"),
    [
        ('TORCH_CHECK(k.dim() == 4, "four");', "ranks", {"k": 4}),
        ("CHECK_DIM(3, query);", "ranks", {"query": 3}),
        (
            "TORCH_CHECK(k.size(0) == 128 && k.size(1) == n);",
            "equal",
            [("k.size(0)", "128"), ("k.size(1)", "n")],
        ),
        (
            "TVM_FFI_ICHECK_EQ(k.size(0), cache.size(1)) << 1;",
            "equal",
            [("k.size(0)", "cache.size(1)")],
        ),
        ("CHECK_SHAPE(query, k);", "alike", [("query", "k")]),
        ("TORCH_CHECK(query.sizes() == k.sizes());", "alike", [("query", "k")]),
        ("TORCH_CHECK(k.scalar_type() == at::ScalarType::Long);", "dtypes", {"k": ("int64",)}),
        ("CHECK_INPUT_TYPE(k, dl_int32);", "dtypes", {"k": ("int32",)}),
        (
            "TORCH_CHECK(k.dtype() == torch::kHalf || k.dtype() == torch::kBFloat16);",
            "dtypes",
            {"k": ("float16", "bfloat16")},
        ),
        ("TORCH_CHECK(k.dtype() == query.dtype());", "same_dtype", [("k", "query")]),
        ("TORCH_CHECK(head_size % 8 == 0);", "multiples", [("head_size", 8)]),
        ('TORCH_CHECK(rot_dim <= head_size, "at most");', "relations", ["rot_dim<=head_size"]),
        (
            "TORCH_CHECK(!k.has_value() || (k->size(0) == 4 && head_size % 8 == 0));",
            "multiples",
            [("head_size", 8)],
        ),
        ("TORCH_CHECK((head_size == 1 && n == 2) || (head_size == 2 && n == 4));", "relations", []),
        (
            "const torch::stable::Tensor& k_tensor = k.value(); TORCH_CHECK(k_tensor.dim() == 1);",
            "ranks",
            {"k": 1},
        ),
        ("CHECK_LE(rot_dim, head_size);", "relations", ["rot_dim<=head_size"]),
        ("TORCH_CHECK(k.is_cuda()); TORCH_CHECK(name != other);", "relations", []),
    ],
)
def test_checks(check: str, field: str, value: object) -> None:
    assert getattr(read(check), field) == value
