"""Tests of operators that the wheel of SGLang with tests has none for, with the sizes and the
tolerances of the tests in its repository."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)


@pytest.mark.parametrize("renormalize", [True, False])
@pytest.mark.parametrize("topk", [1, 2, 4, 8])
@pytest.mark.parametrize("experts", [8, 16, 32, 64, 128, 160, 256])
@pytest.mark.parametrize("tokens", [0, 1, 16, 128, 1024])
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_topk_softmax(
    tokens: int, experts: int, topk: int, dtype: torch.dtype, renormalize: bool
) -> None:
    from sglang.srt.layers.moe import topk as layer

    gating = torch.randn(tokens, experts, device="cuda").to(dtype)
    weights, ids = layer.fused_topk(gating, gating, topk, renormalize)
    shares = gating.float().softmax(-1)
    expected = shares.topk(topk, -1).values
    found = shares.gather(1, ids.long())
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)  # ties: any of them
    assert all(len(set(row)) == topk for row in ids.tolist())
    if renormalize:
        expected = expected / expected.sum(-1, keepdim=True)
    torch.testing.assert_close(weights, expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("pad", [True, False])
@pytest.mark.parametrize("block", [16, 64, 128])
@pytest.mark.parametrize("experts", [64, 128, 160, 257, 512])
@pytest.mark.parametrize("topk", [1, 2, 8])
@pytest.mark.parametrize("tokens", [1, 4, 16, 64, 256, 1024, 4096, 9000])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_align(
    tokens: int, topk: int, experts: int, block: int, pad: bool, dtype: torch.dtype
) -> None:
    """With whole rows of ids and room for every block, as SGLang's layers call it."""
    from sglang.kernels.ops import moe

    ids = torch.rand(tokens, experts, device="cuda").topk(topk).indices.to(dtype).contiguous()
    count = ids.numel()
    most = min(count * block, count + (experts + 1) * (block - 1))
    places, owners, total, room = (
        torch.full((size,), value, dtype=torch.int32, device="cuda")
        for size, value in ((most, count), (-(-most // block), -7), (1, 0), (experts + 2, 0))
    )
    moe.moe_align_block_size(ids, experts + 1, block, places, owners, total, room, pad)
    each = torch.bincount(ids.flatten().long(), minlength=experts)
    blocks = (each + block - 1) // block
    assert total.item() == blocks.sum().item() * block
    expected = torch.repeat_interleave(torch.arange(experts, device="cuda"), blocks)
    assert torch.equal(owners[: len(expected)].long(), expected)
    some = places[: total.item()].long()
    real = some < count
    assert torch.equal(some[real].sort().values, torch.arange(count, device="cuda"))
    assert torch.equal(ids.flatten()[some[real]].long(), expected.repeat_interleave(block)[real])


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("topk", [2, 4, 8, 9])
@pytest.mark.parametrize("hidden", [128, 2048, 7168])
@pytest.mark.parametrize("tokens", [0, 1, 13, 64, 129, 1024])
@pytest.mark.parametrize("dtype", HALVES)
def test_moe_sum_reduce(
    tokens: int, hidden: int, topk: int, scale: float, dtype: torch.dtype
) -> None:
    import sgl_kernel

    rows = torch.randn(tokens, topk, hidden, device="cuda", dtype=dtype)
    out = torch.empty(tokens, hidden, device="cuda", dtype=dtype)
    sgl_kernel.moe_sum_reduce(rows, out, scale)
    expected = (rows.double().sum(1) * scale).to(dtype)
    torch.testing.assert_close(out, expected, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("tokens", [1, 256, 613, 1536])
@pytest.mark.parametrize("heads", [8, 16, 32])
@pytest.mark.parametrize("size", [32, 48, 64, 128, 256])
@pytest.mark.parametrize("dtype", HALVES)
def test_merge_state(tokens: int, heads: int, size: int, dtype: torch.dtype) -> None:
    import sgl_kernel

    first, second = (torch.randn(tokens, heads, size, device="cuda").to(dtype) for _ in range(2))
    scores = torch.randn(2, tokens, heads, device="cuda")
    absent = torch.rand(tokens, heads, device="cuda")
    scores[0][absent < 0.1], scores[1][absent > 0.9] = torch.inf, torch.inf
    merged, total = sgl_kernel.merge_state_v2(first, scores[0], second, scores[1])
    exact = scores.double()
    exact[exact == torch.inf] = -torch.inf
    shares = exact.softmax(0)[..., None]
    expected = first.double() * shares[0] + second.double() * shares[1]
    rtol = 1e-2 if dtype is torch.bfloat16 else 1e-3
    torch.testing.assert_close(merged.float(), expected.float(), atol=1e-3, rtol=rtol)
    torch.testing.assert_close(total, exact.logsumexp(0).float(), atol=1e-3, rtol=rtol)


@pytest.mark.parametrize("tokens", [0, 1, 128, 512])
@pytest.mark.parametrize("padding", [0, 16])
@pytest.mark.parametrize("hidden", [512, 1368, 2048, 4096])
@pytest.mark.parametrize("dtype", HALVES)
def test_per_token_quant(tokens: int, padding: int, hidden: int, dtype: torch.dtype) -> None:
    from sglang.kernels.ops import quantization

    rows = torch.rand(tokens, hidden, device="cuda").to(dtype)
    codes = torch.zeros(tokens + padding, hidden, device="cuda", dtype=torch.float8_e4m3fn)
    scales = torch.zeros(tokens + padding, 1, device="cuda")
    quantization.sgl_per_token_quant_fp8(rows, codes, scales)
    largest = torch.finfo(codes.dtype).max
    expected: Tensor = rows.float().abs().amax(-1, keepdim=True) / largest
    torch.testing.assert_close(scales[:tokens], expected, atol=1e-3, rtol=1e-3)
    back = codes[:tokens].float() * scales[:tokens]
    torch.testing.assert_close(back, rows.float(), atol=1e-3, rtol=0.07)
    assert not codes[tokens:].float().any()
    assert not scales[tokens:].any()
