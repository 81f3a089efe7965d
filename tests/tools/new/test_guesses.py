"""Guesses for cases, indices and scales are legal by what the source states."""

from __future__ import annotations

import math

import pytest

from astra_chat.tools.new.create import draft_of
from astra_chat.tools.new.draft import DraftScalar
from astra_chat.tools.new.guesses import (
    bench_extents,
    check_extents,
    index_of,
    largest,
    relations,
    scalar_value,
    scale_of,
)
from astra_chat.tools.task.expressions import parse_relation
from tests.contracts.planted import contract
from tests.tools.new.samples import draft


@pytest.mark.parametrize("file", ["rotary_torch.cu", "kv_cache_torch.cu", "awq_dequant_torch.cu"])
def test_sizes_meet_the_relations(file: str) -> None:
    found = draft(file)
    met, unmet = relations(found)
    assert met and not unmet
    for extents in (*check_extents(found), bench_extents(found, 4096)):
        assert all(parse_relation(text).value(extents) for text in met)
        assert all(extents[name] % step == 0 for name, step in found.multiples.items())
        assert all(extents[name] <= largest(found, name) for name in found.dims)
    assert len({tuple(one.values()) for one in check_extents(found)}) == 5


def test_a_tensor_of_many_dims_has_less_than_2_to_63_bytes() -> None:
    launcher = "void go(float* x, int a, int b, int c, int e, cudaStream_t s) { k<<<1, 1>>>(x); }"
    found = draft_of(f"__global__ void k(float* x) {{ x[0] = 1; }}\n{launcher}", "mine", None)
    (shape,) = map(found.shape_of, found.tensors)
    assert len(shape) == 4 and math.prod(largest(found, dim) for dim in shape) == 2**56


def test_indices() -> None:
    found = draft("kv_cache_torch.cu")
    assert index_of(found, found.tensors[4]) == {
        "from": 0,
        "below": "num_blocks*block_size",
        "kind": "slots",
        "none": -1,
    }
    plain = draft_of(contract("reshape_and_cache").baseline, "mine", None)
    assert index_of(plain, plain.tensors[4]) == {
        "from": 0,
        "below": "blocks*block_size",
        "kind": "slots",
        "none": -1,
    }
    assert relations(plain) == (["tokens <= blocks*block_size"], [])
    plain = draft_of(contract("rotary_embedding").baseline, "mine", None)
    assert index_of(plain, plain.tensors[0])["below"] == "max_position"
    found = draft("rotary_torch.cu")
    assert index_of(found, found.tensors[0]) == {
        "from": 0,
        "below": "max_position",
        "kind": "positions",
        "table": "cos_sin_cache",
    }
    found = draft("moe_align_torch.cu")
    assert index_of(found, found.tensors[0])["below"] == "num_experts"


def test_scales() -> None:
    found = draft("group_quant_torch.cu")
    assert scale_of(found, found.tensors[1]) == ("output_s", ["1", "group_size"])
    assert scale_of(found, found.tensors[0]) is None
    found = draft("int8_quant_plain.cu")
    assert scale_of(found, found.tensors[1]) == ("scales", ["1", "cols"])


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        ("float", "1e-5f", "1e-5"),
        ("float", "", "1.0"),
        ("bool", "False", "false"),
        ("bool", "", "true"),
        ("int64_t", "4", "4"),
        ("int64_t", "kMany", "1"),
    ],
)
def test_values_of_scalars(kind: str, given: str, value: str) -> None:
    assert scalar_value(DraftScalar("alpha", kind, given)) == value
