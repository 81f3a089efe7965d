"""Precision by place: honest float32 kernels pass whatever their order, formula and instructions;
what rounds some columns, some heads or small results in another way does not."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from astra_chat.tools.check.bands import banded, has_band
from astra_chat.tools.check.compare import compare
from astra_chat.tools.check.floats import ulp
from astra_chat.tools.check.measured_values import piece
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.task.precision import Precision
from astra_chat.tools.types import Case, DTypeName, Wrong
from tests.tools.check.made_results import (
    Kernel,
    Rounding,
    activated,
    coded,
    in_columns,
    input_of,
    nearest,
    normed,
    summed,
    truncated,
)

ROWS = {"column_major": 0.0}
HALVES: tuple[DTypeName, ...] = ("float16", "bfloat16")


def half_of(kernel: Kernel) -> torch.dtype:
    found: torch.dtype = getattr(torch, kernel.case.dtype)
    return found


def silu(folder: Path, dtype: DTypeName = "float16") -> Kernel:
    case = Case(dims={"tokens": 64, "d": 256}, dtype=dtype, seed=5)
    kernel = Kernel(folder, "silu_and_mul", case)
    kernel.learn({"out": nearest(activated(kernel, exact=True), half_of(kernel))})
    return kernel


def moe(folder: Path, dtype: DTypeName = "bfloat16") -> Kernel:
    case = Case(dims={"tokens": 64, "experts": 9, "hidden": 256}, dtype=dtype, seed=6)
    kernel = Kernel(folder, "moe_sum_reduce", case)
    kernel.learn({"output": nearest(summed(kernel), half_of(kernel))})
    return kernel


def group_quant(folder: Path) -> Kernel:
    case = Case(dims={"tokens": 32, "hidden": 512}, dtype="bfloat16", seed=7, scalars=ROWS)
    kernel = Kernel(folder, "per_token_group_quant_fp8", case)
    kernel.learn(coded(input_of(kernel).float(), 128, divide=True))
    return kernel


def fused_quant(folder: Path) -> Kernel:
    case = Case(dims={"tokens": 64, "d": 512}, dtype="bfloat16", seed=8, scalars=ROWS)
    kernel = Kernel(folder, "silu_and_mul_group_quant_fp8", case)
    kernel.learn(coded(activated(kernel, exact=True).bfloat16().float(), 128))
    return kernel


@pytest.mark.parametrize("dtype", HALVES)
def test_other_formulas_and_orders_pass(tmp_path: Path, dtype: DTypeName) -> None:
    kernel = silu(tmp_path, dtype)
    assert not isinstance(kernel.judge({"out": nearest(activated(kernel), half_of(kernel))}), Wrong)
    assert 0 < kernel.seen.shares["out"] < 0.02
    kernel = moe(tmp_path, dtype)
    backwards = nearest(summed(kernel, "last"), half_of(kernel))
    assert not isinstance(kernel.judge({"output": backwards}), Wrong)


@pytest.mark.parametrize("h", [64, 16384])
def test_a_row_summed_one_by_one_passes(tmp_path: Path, h: int) -> None:
    kernel = Kernel(tmp_path, "rmsnorm", Case(dims={"tokens": 8, "h": h}, dtype="float16", seed=9))
    kernel.learn({"out": nearest(normed(kernel), torch.float16)})
    serial = nearest(normed(kernel, serial=True), torch.float16)
    assert not isinstance(kernel.judge({"out": serial}), Wrong)


@pytest.mark.parametrize("every", [8, 16, 64])
def test_truncated_columns_are_wrong_where_they_stand(tmp_path: Path, every: int) -> None:
    rounding = in_columns(every, truncated)
    kernel = moe(tmp_path)
    wrong = kernel.judge({"output": rounding(summed(kernel), torch.bfloat16)})
    assert isinstance(wrong, Wrong) and wrong.reason == "precision"
    assert wrong.index[-1] % every == every - 1 and "midpoint" in wrong.note
    kernel = silu(tmp_path)
    wrong = kernel.judge({"out": rounding(activated(kernel), torch.float16)})
    assert isinstance(wrong, Wrong) and wrong.index[-1] % every == every - 1


def sixteen_bit_products(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What is left where an intermediate was rounded to the result's dtype, too."""
    return (values / 3).to(dtype).mul(3)


def flushed(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Subnormal results as zero."""
    return torch.where(values.abs() < torch.finfo(dtype).tiny, 0.0, values).to(dtype)


@pytest.mark.parametrize(
    ("rounding", "every"),
    [(sixteen_bit_products, 1), (sixteen_bit_products, 64), (truncated, 1), (flushed, 1)],
)
def test_other_arithmetic_in_some_columns_is_wrong(
    tmp_path: Path, rounding: Rounding, every: int
) -> None:
    kernel = silu(tmp_path)
    other = in_columns(every, rounding)
    wrong = kernel.judge({"out": other(activated(kernel), torch.float16)})
    reason = "value" if rounding is flushed else "precision"
    assert isinstance(wrong, Wrong) and wrong.reason == reason


def test_a_tangent_of_eleven_bits_is_wrong(tmp_path: Path) -> None:
    """tanh.approx.f32 errs by 2^-11 of its result."""
    kernel = silu(tmp_path)
    off = activated(kernel) * (1 + 2.0**-11 * torch.sin(torch.arange(256.0)))
    assert isinstance(kernel.judge({"out": off.half()}), Wrong)


def test_codes_by_division_or_reciprocal_pass(tmp_path: Path) -> None:
    kernel = group_quant(tmp_path)
    assert not isinstance(kernel.judge(coded(input_of(kernel).float(), 128)), Wrong)


@pytest.mark.parametrize("every", [16, 64])
def test_some_codes_truncated_or_a_step_too_large_are_wrong(tmp_path: Path, every: int) -> None:
    kernel = group_quant(tmp_path)
    values = input_of(kernel).float()
    wrong = kernel.judge(coded(values, 128, in_columns(every, truncated)))
    assert isinstance(wrong, Wrong) and wrong.argument == "output_q"
    right = coded(values, 128)
    codes = right["output_q"].view(torch.uint8).clone()
    codes[:, ::every] += 1
    stepped = {**right, "output_q": codes.view(torch.float8_e4m3fn)}
    assert isinstance(kernel.judge(stepped), Wrong)


def test_a_fused_kernel_may_round_its_intermediate_or_not(tmp_path: Path) -> None:
    """Codes of the rounded product over the scale of the unrounded one are right, too."""
    kernel = fused_quant(tmp_path)
    values = activated(kernel)
    assert not isinstance(kernel.judge(coded(values, 128)), Wrong)
    assert not isinstance(kernel.judge(coded(values.bfloat16().float(), 128)), Wrong)
    unrounded = coded(values, 128)
    scales = unrounded["output_s"].repeat_interleave(128, dim=-1)
    codes = (values.bfloat16().float() / scales).clamp(-448, 448).to(torch.float8_e4m3fn)
    assert not isinstance(kernel.judge({**unrounded, "output_q": codes}), Wrong)


@pytest.mark.parametrize("every", [1, 8, 64])
def test_a_fused_kernel_may_not_truncate_its_intermediate(tmp_path: Path, every: int) -> None:
    kernel = fused_quant(tmp_path)
    values = in_columns(every, truncated)(activated(kernel), torch.bfloat16).float()
    wrong = kernel.judge(coded(values, 128))
    assert isinstance(wrong, Wrong) and wrong.reason == "precision"


def test_scales_a_little_too_small_are_wrong_though_codes_follow_them(tmp_path: Path) -> None:
    """0.1 % are a hundred times float32's roundings, and less than the task's tolerance."""
    kernel = fused_quant(tmp_path)
    values = activated(kernel)
    found = coded(values, 128)
    found["output_s"] = found["output_s"] * 0.999
    scales = found["output_s"].repeat_interleave(128, dim=-1)
    found["output_q"] = (values / scales).clamp(-448, 448).to(torch.float8_e4m3fn)
    wrong = kernel.judge(found)
    assert isinstance(wrong, Wrong) and wrong.argument == "output_s"


def test_columns_of_float32_that_lean_are_wrong(tmp_path: Path) -> None:
    """Each is within float32's own roundings; together they have a direction."""
    case = Case(dims={"tokens": 256, "d": 256}, dtype="float32", seed=5)
    kernel = Kernel(tmp_path, "silu_and_mul", case)
    kernel.learn({"out": activated(kernel, exact=True)})
    right = activated(kernel)
    assert not isinstance(kernel.judge({"out": right}), Wrong)
    leaning = right.clone()
    leaning[:, 5::16] = torch.nextafter(leaning[:, 5::16], torch.zeros(()))
    wrong = kernel.judge({"out": leaning})
    assert (
        isinstance(wrong, Wrong)
        and "columns whose index is 5 modulo 16 are biased by -" in wrong.note
    )


def test_roundings_of_rows_that_repeat_are_compared_with_the_baseline_s_own(tmp_path: Path) -> None:
    """Each column of 256 equal rows has one error: it leans, in the baseline as in the candidate.
    The baseline alone has run a second case, where nothing repeats."""
    dims, (repeated, other) = {"tokens": 256, "d": 64}, (tmp_path / "a", tmp_path / "b")
    for folder in (repeated, other):
        folder.mkdir()
    kernel = Kernel(repeated, "silu_and_mul", Case(dims=dims, dtype="float16", seed=5))
    beside = Kernel(other, "silu_and_mul", Case(dims=dims | {"tokens": 2048}, dtype="float16"))
    right = nearest(activated(kernel, exact=True), torch.float16)
    right[:], exact = right[:1].clone(), np.fromfile(repeated / "out.expected").reshape(256, 64)
    np.broadcast_to(exact[:1], exact.shape).tofile(repeated / "out.expected")
    kernel.learn({"out": right})
    beside.errors = kernel.errors
    beside.learn({"out": nearest(activated(beside, exact=True), torch.float16)})
    assert not isinstance(kernel.judge({"out": right}), Wrong)


def test_columns_of_ordered_rows_are_sizes_and_not_compared(tmp_path: Path) -> None:
    """A kernel's errors of small weights lean otherwise than its errors of large ones."""
    dims = {"tokens": 512, "topk": 12, "experts": 32}
    scalars = {"renormalize": 0.0, "moe_softcapping": 0.0}
    case = Case(dims=dims, dtype="float32", seed=5, absent=("correction_bias",), scalars=scalars)
    kernel = Kernel(tmp_path, "topk_softmax", case)
    weights, ids = torch.softmax(input_of(kernel, "gating").double(), dim=1).topk(12, dim=1)
    right = {"topk_weights": weights.float(), "topk_ids": ids.int()}
    kernel.learn(right)
    smaller = weights.float()
    smaller[:, 11] = torch.nextafter(smaller[:, 11], torch.zeros(()))
    assert not isinstance(kernel.judge({**right, "topk_weights": smaller}), Wrong)


def test_codes_of_a_scale_that_is_zero_are_zero(tmp_path: Path) -> None:
    case = Case(dims={"tokens": 8, "hidden": 64}, dtype="bfloat16", seed=7)
    kernel = Kernel(tmp_path, "per_token_quant_fp8", case)
    values = input_of(kernel).float()
    assert not values[1].any()
    scales = values.abs().amax(dim=1, keepdim=True) / 448
    codes = (values / scales).nan_to_num(nan=0.0).clamp(-448, 448).to(torch.float8_e4m3fn)
    kernel.learn({"output_q": codes, "output_s": scales})
    assert not isinstance(kernel.judge({"output_q": codes, "output_s": scales}), Wrong)
    assert kernel.seen.shares["output_q"] < 0.02
    codes[1, 3] = 2.0**-9
    wrong = kernel.judge({"output_q": codes, "output_s": scales})
    assert isinstance(wrong, Wrong) and wrong.index == (1, 3)


@pytest.mark.parametrize("scale", [0.0, 2.0**-135, 2.0**-120])
def test_codes_of_a_scale_that_the_oracle_flushes_may_be_exact(
    tmp_path: Path, scale: float
) -> None:
    """Rows of denormals: with the scale zero all codes are, with one below 2^-126 any, with a
    larger one those of the oracle."""
    case = Case(dims={"tokens": 8, "hidden": 64}, dtype="bfloat16", seed=7)
    kernel = Kernel(tmp_path, "per_token_quant_fp8", case)
    values = input_of(kernel).float()
    scales = values.abs().amax(dim=1, keepdim=True) / 448
    codes = (values / scales).nan_to_num(nan=0.0).clamp(-448, 448).to(torch.float8_e4m3fn)
    scales[1], codes[1] = scale, 128.0 if scale else 0.0
    found = compare(kernel.task, kernel.run({"output_q": codes, "output_s": scales}))
    assert isinstance(found, Wrong) == (scale > 2.0**-126), found
    kernel.learn({"output_q": codes, "output_s": scales})
    if not isinstance(found, Wrong):
        assert not isinstance(kernel.judge({"output_q": codes, "output_s": scales}), Wrong)


def half_away(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """bfloat16 with ties away from zero."""
    words = values.contiguous().view(torch.int32)
    return ((words + 0x8000) >> 16).to(torch.int16).view(dtype)


def test_ties_that_are_broken_away_from_zero_are_wrong(tmp_path: Path) -> None:
    case = Case(dims={"tokens": 64, "h": 256}, dtype="bfloat16", seed=5)
    kernel = Kernel(tmp_path, "fused_add_rmsnorm", case)
    total = input_of(kernel).float() + input_of(kernel, "residual").float()
    scale = torch.rsqrt(total.square().mean(dim=-1, keepdim=True) + 1e-6)
    out = (total * scale * input_of(kernel, "weight").float()).bfloat16()
    kernel.learn({"input": out, "residual": total.bfloat16()})
    again = {"input": out, "residual": total.bfloat16()}
    assert not isinstance(kernel.judge(again), Wrong)
    wrong = kernel.judge({"input": out, "residual": half_away(total, torch.bfloat16)})
    assert isinstance(wrong, Wrong) and "not rounded to even" in wrong.note


def test_ties_that_a_kernel_s_own_errors_break_to_both_sides_are_right(tmp_path: Path) -> None:
    case = Case(dims={"tokens": 64, "h": 256}, dtype="bfloat16", seed=5)
    kernel = Kernel(tmp_path, "fused_add_rmsnorm", case)
    total = input_of(kernel).float() + input_of(kernel, "residual").float()
    scale = torch.rsqrt(total.square().mean(dim=-1, keepdim=True) + 1e-6)
    out = (total * scale * input_of(kernel, "weight").float()).bfloat16()
    kernel.learn({"input": out, "residual": total.bfloat16()})
    errors = torch.randint(-1, 2, total.shape, generator=torch.Generator().manual_seed(3))
    near = total * (1 + errors * 2.0**-22)
    assert not isinstance(kernel.judge({"input": out, "residual": near.bfloat16()}), Wrong)


@pytest.mark.parametrize("name", ["silu_and_mul", "gelu_tanh_and_mul", "rotary_embedding"])
@pytest.mark.parametrize("dtype", HALVES)
def test_the_band_of_a_task_by_elements_is_below_a_sixteenth_of_an_ulp(
    tmp_path: Path, name: str, dtype: DTypeName
) -> None:
    """Values are normal ones, where nothing cancels; rotations are two products, which may
    cancel."""
    task = find_task(name)
    own = next(c for c in task.check if c.dtype == dtype and c.values == "normal")
    kernel = Kernel(tmp_path, name, own)
    arg = next(arg for arg in task.args if arg.written)
    zeros = torch.zeros(arg.shape_of(own), dtype=half_of(kernel))
    one = piece(task, arg, kernel.run({a.name: zeros for a in task.args if a.written}))
    assert has_band(task, one)
    every = torch.arange(len(one.got)).numpy()
    widths = banded(task, one, every).width / ulp(one.expected, dtype)
    most = max(widths) if name != "rotary_embedding" else sorted(widths)[len(widths) // 2]
    assert most < 1 / 16


def test_more_roundings_than_usual_need_a_reason() -> None:
    assert Precision().factor({}) == 32 * 2.0**-24
    with pytest.raises(ValueError, match="requires a reason"):
        Precision(roundings=64)
    with pytest.raises(ValueError, match="requires a reason"):
        Precision(rounded_terms="bfloat16")
    wide = Precision(rounded_terms="bfloat16", reason="tensor cores round p to bfloat16")
    assert math.isclose(wide.factor({}), 2.0**-8, rel_tol=1e-3)
    assert Precision(summands="2 * h").factor({"h": 8}) == (32 + 4 * 4) * 2.0**-24
