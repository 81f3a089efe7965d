"""The task qk_norm_rope_kv_append: its script is what its files say, and its reference is PyTorch's
norm, a rotation by complex numbers and a cache filled slot by slot."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from astra_chat.models.script import load_script
from astra_chat.tools.task.folder import find_task
from tests.sglang_kernels import shipped

TASK = find_task("qk_norm_rope_kv_append")
SCRIPT = load_script(TASK)
KERNELS = shipped.kernels(TASK)
PAGES, SIZE, HEADS, KV, DIM = 3, 4, 4, 2, 16


@pytest.mark.parametrize("name", shipped.sound(TASK, SCRIPT))
def test_kernel_exports_the_prototype(name: str, tmp_path: Path) -> None:
    shipped.require_prototype(TASK, KERNELS[name], tmp_path)


def test_the_script_holds_to_its_form() -> None:
    shipped.require_anchors(TASK, SCRIPT)
    shipped.require_new_cases(TASK, SCRIPT)
    shipped.require_no_figures(SCRIPT)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn])
def test_the_reference_is_pytorchs_norm_a_rotation_and_an_append(dtype: torch.dtype) -> None:
    g = torch.Generator().manual_seed(5)
    query, key, value = (torch.randn(2, n, DIM, generator=g).bfloat16() for n in (HEADS, KV, KV))
    weights = [torch.randn(DIM, generator=g).bfloat16() for _ in range(2)]
    caches = [torch.randn(PAGES, SIZE, KV, DIM, generator=g).to(dtype) for _ in range(2)]
    angles = torch.rand(5, DIM // 2, generator=g, dtype=torch.float64)
    inputs = {
        **{"query": query, "key": key, "value": value, "eps": 1e-3},
        **{"k_cache": caches[0], "v_cache": caches[1]},
        **{"q_weight": weights[0], "k_weight": weights[1]},
        "cos_sin_cache": torch.cat([angles.cos(), angles.sin()], dim=1).float(),
        **{"positions": torch.tensor([4, 1]), "slots": torch.tensor([9, 2], dtype=torch.int32)},
        **{"k_scale": torch.tensor([0.5]), "v_scale": None},
    }
    found = shipped.reference(TASK).reference(inputs)
    for name, given, weight in (("query", query, weights[0]), ("key", key, weights[1])):
        normed = torch.nn.functional.rms_norm(given.double(), (DIM,), weight.double(), 1e-3)
        turned = (
            torch.complex(*normed.chunk(2, dim=-1))
            * torch.polar(torch.ones_like(angles), angles)[[4, 1], None]
        )
        wanted = torch.cat([turned.real, turned.imag], dim=-1)
        torch.testing.assert_close(found[name], wanted, rtol=1e-6, atol=1e-6)
    codes = dtype == torch.float8_e4m3fn
    k_cache, v_cache = (cache.double() for cache in caches)
    k_cache[2, 1], k_cache[0, 2] = found["key"] / (0.5 if codes else 1.0)
    v_cache[2, 1], v_cache[0, 2] = value.double()
    torch.testing.assert_close(found["k_cache"], k_cache)
    torch.testing.assert_close(found["v_cache"], v_cache)


def test_served_heads_are_timed() -> None:
    """Heads of the models, caches of both dtypes, and the rows that FlashInfer's CAKE kernels
    take."""
    heads = [(case.dims["heads"], case.dims["kv_heads"]) for case, _ in TASK.bench]
    assert set(heads) == {(32, 4), (32, 8), (64, 8), (8, 1)}
    assert sum(one in ((8, 1), (64, 8)) for one in heads) == 5
    assert {case.types["C"] for case, _ in TASK.bench} == {"bfloat16", "float8_e4m3fn"}
    assert max(case.dims["tokens"] for case, _ in TASK.bench) == 4096
