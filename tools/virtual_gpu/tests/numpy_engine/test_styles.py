"""silu_and_mul as people write it, against float64; with and without --use_fast_math."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from astra_vgpu.types import Dim3

Array = NDArray[Any]
TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
ULP = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-23}


def make(tokens: int, d: int, kind: str, seed: int = 0) -> tuple[Array, Array]:
    """(input as raw memory [tokens, 2d], what silu_and_mul makes of it in float64)."""
    generator = torch.Generator().manual_seed(seed)
    x = (torch.randn(tokens, 2 * d, generator=generator) * 2).to(TORCH[kind])
    wide = x.double()
    expected = torch.nn.functional.silu(wide[:, :d]) * wide[:, d:]
    raw = x.view(torch.int16).numpy() if kind != "f32" else x.numpy()
    return raw.copy(), expected.numpy()


def as_float64(raw: Array, kind: str) -> Array:
    tensor = torch.from_numpy(raw)
    return (tensor if kind == "f32" else tensor.view(TORCH[kind])).double().numpy()


def check(raw: Array, expected: Array, kind: str, ulps: float) -> None:
    got = as_float64(raw, kind).reshape(expected.shape)
    error = np.abs(got - expected) / (np.abs(expected) + 1e-3)
    assert np.isfinite(got).all()
    assert error.max() <= ulps * ULP[kind], f"{error.max() / ULP[kind]:.1f} ulp"


FLAGS = [(), ("--use_fast_math",)]


@pytest.mark.parametrize("flags", FLAGS, ids=["exact", "fast"])
@pytest.mark.parametrize(
    ("kernel", "ulps"),
    [
        ("scalar_bf16", 1),
        ("scalar_f16", 1),
        ("scalar_f32", 16),
        ("vector_bf16", 1),
        ("vector_f16", 1),
        ("vector_f32", 16),
        ("pairs_bf16", 2.1),
        ("half2_f16", 8),
        ("bfloat2_bf16", 8),
        ("double_f32", 2),
    ],
)
def test_a_block_a_token(compiled: Any, flags: tuple[str, ...], kernel: str, ulps: float) -> None:
    kind = kernel.rpartition("_")[2]
    raw, expected = make(3, 1112, kind)
    out = np.zeros(expected.shape, raw.dtype)
    compiled("styles.cu", *flags).launch(f"{kernel}", 3, 96, out, raw, np.int32(1112))
    check(out, expected, kind, ulps)


@pytest.mark.parametrize("flags", FLAGS, ids=["exact", "fast"])
def test_flat_index_with_64_bit_division(compiled: Any, flags: tuple[str, ...]) -> None:
    raw, expected = make(5, 333, "f16")
    out = np.zeros(expected.shape, raw.dtype)
    bench = compiled("styles.cu", *flags)
    bench.launch("flat_f16", 4, 128, out, raw, np.int64(5), np.int64(333))
    check(out, expected, "f16", 1)


@pytest.mark.parametrize("flags", FLAGS, ids=["exact", "fast"])
def test_early_return_in_two_dimensions(compiled: Any, flags: tuple[str, ...]) -> None:
    raw, expected = make(7, 70, "f32")
    raw[2, 5], expected[2, 5] = 0.0, 0.0
    out = np.full(expected.shape, np.nan, np.float32)
    grid, block = Dim3(3, 3), Dim3(32, 3)
    bench = compiled("styles.cu", *flags)
    bench.launch("early_f32", grid, block, out, raw, np.int32(7), np.int32(70))
    check(out, expected, "f32", 16)


@pytest.mark.parametrize("flags", FLAGS, ids=["exact", "fast"])
def test_static_and_dynamic_shared_memory(compiled: Any, flags: tuple[str, ...]) -> None:
    raw, expected = make(4, 600, "bf16")
    out = np.zeros(expected.shape, raw.dtype)
    bench = compiled("styles.cu", *flags)
    report = bench.launch("staged_bf16", 4, 256, out, raw, np.int32(600), shared=1024)
    check(out, expected, "bf16", 1)
    assert report.counters.barriers == 4 * 8 * 3 * 2


@pytest.mark.parametrize("flags", FLAGS, ids=["exact", "fast"])
def test_calls_and_a_structure_by_value(compiled: Any, flags: tuple[str, ...]) -> None:
    raw, expected = make(3, 200, "f32")
    out = np.zeros(expected.shape, np.float32)
    shape = np.array([3, 200], np.int32).tobytes() + np.float32(2.0).tobytes()
    compiled("styles.cu", *flags).launch("tanh_f32", 2, 128, out, raw, shape)
    # 1 + tanh cancels; --use_fast_math makes tanhf the hardware's tanh.approx: 2^-11.
    check(out, 2 * expected, "f32", 2**10 if not flags else 2**14)


def test_special_values_follow_ieee(compiled: Any) -> None:
    special = np.array([np.inf, -np.inf, np.nan, -0.0, 0.0, 1e-40, -1e38, 3e38], np.float32)
    raw = np.concatenate([special, np.ones(8, np.float32)])[None, :]
    out = np.zeros((1, 8), np.float32)
    compiled("styles.cu").launch("scalar_f32", 1, 32, out, raw, np.int32(8))
    x = special.astype(np.float64)
    with np.errstate(all="ignore"):
        expected = np.where(x == -np.inf, np.nan, x / (1 + np.exp(-x)))
    assert np.array_equal(np.isnan(out[0]), np.isnan(expected))
    finite = np.isfinite(expected)
    assert np.allclose(out[0][finite], expected[finite], rtol=1e-6, atol=1e-44)
    assert out[0][0] == np.inf


def test_fast_division_of_a_huge_denominator_is_zero(compiled: Any) -> None:
    """PTX: x / y by div.approx is 0 for y above 2^126, which __expf(-88) is."""
    raw = np.array([[-88.0] * 4 + [1.0] * 4], np.float32)
    out = np.ones((1, 4), np.float32)
    compiled("styles.cu").launch("vector_f32", 1, 32, out, raw, np.int32(4))
    assert (out == 0).all() and np.signbit(out).all()
