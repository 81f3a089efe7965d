"""Sizes asked for in passing get names; those that have one, or that a check compares, do not."""

from __future__ import annotations

import pytest

from astra_chat.tools.new.named_sizes import with_names


def test_sizes_in_expressions() -> None:
    body = (
        "{ TORCH_CHECK(x.size(0) == w.size(0), w.size(1)); int n = x.size(-1);"
        " auto y = torch::empty({x.size(0), x.size(1)}, x.options());"
        " k<<<x.sizes()[0], 128>>>(x.data_ptr<float>(), n, x.size(0) * w->shape()[2]); }"
    )
    named = with_names(body, ["x", "w"])
    assert named.startswith(
        "{ const int64_t x_0 = x.size(0); const int64_t x_1 = x.size(1);"
    ) or named.startswith("{ const int64_t x_0 = x.sizes()[0];")
    assert "const int64_t w_2 = w->shape()[2];" in named and "w_1 =" not in named
    assert "torch::empty({x_0, x_1}, x.options())" in named
    assert "k<<<x_0, 128>>>(x.data_ptr<float>(), n, x_0 * w_2); }" in named
    assert "int n = x.size(-1);" in named


def test_a_count_where_no_size_is_known() -> None:
    body = "{ k<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), x.numel()); }"
    assert with_names(body, ["x"]) == (
        "{ const int64_t x_numel = x.numel();"
        " k<<<(x_numel + 255) / 256, 256>>>(x.data_ptr<float>(), x_numel); }"
    )
    both = "{ k<<<x.size(0), 256>>>(x.numel()); }"
    assert "x_numel" not in with_names(both, ["x"]) and "x_0" in with_names(both, ["x"])


def test_several_in_one_declaration() -> None:
    body = "{ const int rows = x.size(0), cols = x.sizes()[1] ; f(rows, cols); }"
    assert with_names(body, ["x"]) == (
        "{ const int rows = x.size(0); const int cols = x.sizes()[1]; f(rows, cols); }"
    )
    assert with_names("{ float a = f(x, 1), b = 2; }", ["x"]) == "{ float a = f(x, 1), b = 2; }"


@pytest.mark.parametrize(
    "body",
    [
        "{ int n = x.size(0); k<<<n, 1>>>(n); }",
        "{ const auto rows = static_cast<int>(x.size(0)); f(rows); }",
        "{ const int d = x.size(1) / 2; f(d); }",
        "{ int rows = x.numel() / hidden; f(rows); }",
        "{ TORCH_CHECK(x.size(0) == 3); }",
        "{ f(other.size(0)); }",
        "{ int n = x.size(0); f(x.size(0)); }",
    ],
)
def test_what_is_named_stays(body: str) -> None:
    assert with_names(body, ["x"]) == body
    assert with_names(body, []) == body


def test_names_that_a_comment_gives() -> None:
    names = {("x", "0"): "tokens", ("x", "1"): "2*d", ("w", "0"): "tokens"}
    body = "{ k<<<x.size(0), 1>>>(x.size(1), w.size(0), x.numel()); }"
    assert with_names(body, ["x", "w"], names) == (
        "{ const int64_t tokens = w.size(0); k<<<tokens, 1>>>(x.size(1), tokens, x.numel()); }"
    )
