"""A framework's words become those of the launcher; what asks a tensor for more is seen."""

from __future__ import annotations

import pytest

from astra_chat.tools.new.host_function import Facts
from astra_chat.tools.new.translation import needs_framework, words
from tests.tools.new.samples import draft

DRAFT = draft("rotary_torch.cu")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("query.data_ptr<scalar_t>()", "static_cast<scalar_t*>(query)"),
        ("(float*)query.data_ptr()", "static_cast<float*>(query)"),
        (
            "reinterpret_cast<const half*>(cos_sin_cache.data_ptr<at::Half>())",
            "static_cast<const half*>(cos_sin_cache)",
        ),
        ("key.value().data_ptr<float>()", "static_cast<float*>(key)"),
        ("key.has_value()", "(key != nullptr)"),
        ("cos_sin_cache.size(-1) + query.stride(0)", "rot_dim + query_stride"),
        ("cos_sin_cache.stride(0)", "rot_dim"),
        ("positions.numel()", "(num_tokens)"),
        ("query.dim()", "2"),
        ("query.scalar_type() == at::ScalarType::Half", "std::is_same_v<scalar_t, __half>"),
        ("positions.dtype() == torch::kInt64", "true"),
        ("at::cuda::getCurrentCUDAStream()", "stream"),
        ("c10::BFloat16 x", "__nv_bfloat16 x"),
    ],
)
def test_words(text: str, plain: str) -> None:
    facts = Facts(letters={"scalar_t": "T"})
    assert words(DRAFT, facts, text) == plain
    assert not needs_framework(DRAFT, plain)


@pytest.mark.parametrize(
    "text", ["query.contiguous()", "query.size(7)", "torch::ones(1)", "key->defined()", "x.to(y)"]
)
def test_what_needs_the_framework(text: str) -> None:
    assert needs_framework(DRAFT, words(DRAFT, Facts(), text)) == (text != "key->defined()")
