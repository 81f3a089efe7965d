"""What the kernels of the set must compute, by task, in plain NumPy: a time of a wrong kernel is
none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_chat.tools.virtual_gpu.validation.points import Point, input_of

Array = NDArray[Any]
HALF = 2**-10
"""Of a number rounded to fp16, as a share."""
TINY = 2**-24
"""Between neighbours among the smallest of fp16."""


@dataclass(frozen=True)
class Part:
    """What stands in the output, one part behind the other."""

    dtype: str
    """Of NumPy, or bf16."""
    values: Array
    share: float = 0.0
    """Allowed error as a share of the value: 0 for exact."""
    least: float = 0.0
    """Allowed error of any value."""


def wrong(point: Point, out: NDArray[np.uint8]) -> str:
    """The first wrong number in `out`, uint8 [out_bytes], in words; "" where all are right or the
    task has no reference."""
    reference = REFERENCES.get(point.task)
    offset = 0
    for part in reference(input_of(point), point.a, point.b) if reference else ():
        values = part.values.astype(np.float64).ravel()
        width = 2 if part.dtype == "bf16" else np.dtype(part.dtype).itemsize
        raw = out[offset : offset + width * values.size]
        got = bf16(raw) if part.dtype == "bf16" else raw.view(part.dtype)
        off = ~(np.abs(got - values) <= part.share * np.abs(values) + part.least)
        if off.any():
            at = int(np.argmax(off))
            return (
                f"{point.variant} {point.a}x{point.b}: {got[at]} at {at} of {values.size}, expected"
                f" {values[at]}; {int(off.sum())} are wrong"
            )
        offset += raw.nbytes
    return ""


def bf16(raw: Array) -> NDArray[np.float64]:
    """Bytes of bf16 as numbers."""
    return (raw.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(float)


def _halves(words: Array) -> NDArray[np.float64]:
    return words.view(np.float16).astype(np.float64)


def _floats(words: Array) -> NDArray[np.float64]:
    return words.view(np.float32).astype(np.float64)


def _fp8(values: Array) -> Part:
    """Codes of numbers from 0 to 448 as e4m3; a neighbour will do."""
    code = np.arange(127)
    exponent, rest = code // 8, code % 8
    known = np.where(exponent == 0, rest * 2.0**-9, (8 + rest) * 2.0 ** (exponent - 10.0))
    return Part("u1", np.searchsorted((known[1:] + known[:-1]) / 2, values), least=1)


def _normed(x: Array) -> Array:
    squares: Array = (x * x).mean(axis=-1, keepdims=True)
    return x / np.sqrt(squares + 1e-6)


def _gated_norm(words: Array, a: int, b: int) -> list[Part]:
    x = _halves(words)
    weight, (y, gate) = x[:b], x[b:].reshape(2, a, b)
    return [Part("f2", _normed(y * gate / (1 + np.exp(-gate))) * weight, HALF, TINY)]


def _norm_to_fp8(words: Array, a: int, b: int) -> list[Part]:
    x = _halves(words)
    kept = x[b:].reshape(2, a, b).sum(axis=0)
    y = _normed(kept) * x[:b]
    scale = y.max(axis=1, keepdims=True) / 448
    return [Part("f2", kept, HALF, TINY), _fp8(y / scale), Part("f4", scale, HALF)]


def _heads(words: Array, a: int, b: int) -> list[Part]:
    x = _halves(words)
    return [Part("f2", _normed(x[128:].reshape(a * b, 128)) * x[:128], HALF, TINY)]


def _clamped_gate(words: Array, a: int, b: int) -> list[Part]:
    gate, up = np.minimum(_halves(words).reshape(-1, 2), 1.5).T
    return [Part("f2", gate / (1 + np.exp(-1.702 * gate)) * (up + 1), HALF, TINY)]


def _by_group(words: Array, a: int, b: int) -> list[Part]:
    x = _halves(words).reshape(a, b // 128, 128)
    scale = x.max(axis=2, keepdims=True) / 448
    return [_fp8(x / scale), Part("f4", scale[..., 0].T, 1e-6)]


def _by_tensor(words: Array, a: int, b: int) -> list[Part]:
    x = _halves(words)
    scale = x.max() / 448
    return [_fp8(x / scale), Part("f4", np.array([scale]), 1e-6)]


def _rotary(words: Array, a: int, b: int) -> list[Part]:
    table, x = np.split(words[a:], [2048 * 128])
    cos, sin = _floats(table).reshape(2048, 2, 1, 64)[words[:a]].swapaxes(0, 1)
    low, high = _halves(x).reshape(a, b, 2, 64).swapaxes(0, 2).swapaxes(1, 2)
    turned = np.stack([low * cos - high * sin, high * cos + low * sin], axis=2)
    return [Part("f2", turned, HALF, 1e-6)]


def _eight_experts(words: Array, a: int, b: int) -> list[Part]:
    x = _floats(words).reshape(a, b)
    chosen = np.argsort(-x, axis=1, kind="stable")[:, :8]
    e = np.exp(np.take_along_axis(x, chosen, axis=1))
    return [Part("f4", e / e.sum(axis=1, keepdims=True), 1e-5), Part("i4", chosen)]


def _drawn(words: Array, a: int, b: int) -> list[Part]:
    """Sums in fp32 may pass the draw some tokens sooner or later."""
    draws, weights = _floats(words[:a]) / 2, _floats(words[a:]).reshape(a, b)
    sums = weights.cumsum(axis=1)
    return [Part("i4", (sums <= draws[:, None] * sums[:, -1:]).sum(axis=1), least=8)]


def _grammar(words: Array, a: int, b: int) -> list[Part]:
    mask, x = words[: a * b], _halves(words[a * b :])
    allowed = np.unpackbits(mask.view(np.uint8), bitorder="little")
    return [Part("f2", np.where(allowed, x, np.float64(np.float16(-60000))))]


def _kth(words: Array, a: int, b: int) -> list[Part]:
    return [Part("u4", np.sort(words.reshape(a, b), axis=1)[:, -64])]


def _penalties(words: Array, a: int, b: int) -> list[Part]:
    counts, rest = words[: a * b].reshape(a, b), _floats(words[a * b :])
    repeated, often, seen, heat = rest[: 4 * a].reshape(a, 4).T[..., None]
    x = rest[4 * a :].reshape(a, b)
    kept = np.where(counts > 0, x / (1 + repeated) - seen, x)
    return [Part("f4", (kept - often * counts) / (0.5 + heat), 1e-5, 1e-5)]


def _paged(words: Array, a: int, b: int) -> list[Part]:
    x = words.view(np.uint16).reshape(a // 16, 16, b, 16, 8)
    return [Part("u2", x.transpose(0, 2, 3, 1, 4))]


def _int8_rows(words: Array, a: int, b: int) -> list[Part]:
    slots, scales = words[:a], _floats(words[a : 2 * a])
    rows = words[2 * a :].view(np.int8).reshape(a, b)
    return [Part("f2", rows[slots] * scales[slots, None], HALF, TINY)]


def _joined(words: Array, a: int, b: int) -> list[Part]:
    lse, parts = _floats(words[: 8 * a * b]), _floats(words[8 * a * b :])
    weight = np.exp(lse).reshape(-1, 8, 1)
    weight = weight / weight.sum(axis=1, keepdims=True)
    return [Part("f2", (weight * parts.reshape(-1, 8, 128)).sum(axis=1), HALF, TINY)]


def _latent(words: Array, a: int, b: int) -> list[Part]:
    x = words.view(np.uint16)
    shared, own = x[: 64 * a].reshape(a, 1, 64), x[64 * a :].reshape(a, b, 128)
    return [Part("u2", np.concatenate([own, shared.repeat(b, axis=1)], axis=2))]


def _slots(words: Array, a: int, b: int) -> list[Part]:
    order = np.argsort(words, kind="stable")
    slots = np.empty(words.size, np.int64)
    slots[order] = np.arange(words.size)
    return [Part("i4", slots), Part("i4", np.searchsorted(words[order], np.arange(65)))]


def _experts_sum(words: Array, a: int, b: int) -> list[Part]:
    ids, weights = words[: 8 * a].reshape(a, 8), _floats(words[8 * a : 16 * a]).reshape(a, 8, 1)
    rows = _halves(words[16 * a :]).reshape(4 * a, b)
    return [Part("f2", (rows[ids] * weights).sum(axis=1), HALF, TINY)]


def _bags(words: Array, a: int, b: int) -> list[Part]:
    rows = _floats(words[16 * a :]).reshape(4 * a, b)
    return [Part("f4", rows[words[: 16 * a].reshape(a, 16)].mean(axis=1), 1e-5)]


def _four_bits(words: Array, a: int, b: int) -> list[Part]:
    x, scales = np.split(_halves(words[: 32 * b + a * b // 2]), [64 * b])
    packed = words[32 * b + a * b // 2 :].reshape(a, b, 8, 1)
    weights = (packed >> np.arange(0, 32, 4, dtype=np.uint32) & 15).reshape(a, b, 64) - 8.0
    sums = (weights * x.reshape(b, 64)).sum(axis=2) * scales.reshape(a, b)
    return [Part("f4", sums.sum(axis=1), 1e-4, 0.02)]


def _adapter(words: Array, a: int, b: int) -> list[Part]:
    x = _halves(words)
    return [Part("f4", x[16 * b :].reshape(a, b) @ x[: 16 * b].reshape(16, b).T, 1e-4)]


def _linear(words: Array, a: int, b: int) -> list[Part]:
    x = _halves(words).reshape(a + b, 512)
    return [Part("f2", x[:a] @ x[a:].T, HALF, TINY)]


def _attention(words: Array, a: int, b: int) -> list[Part]:
    q, k, v = _halves(words).reshape(3, a, b, 64)
    weight = np.exp(q @ k.swapaxes(1, 2) / 8)
    return [Part("f2", weight / weight.sum(axis=2, keepdims=True) @ v, HALF, TINY)]


def _weight_blocks(words: Array, a: int, b: int) -> list[Part]:
    scales = _floats(words[: a * b]).reshape(a, 1, b, 1)
    weights = words[a * b :].view(np.int8).reshape(a, 128, b, 128)
    return [Part("f2", weights * scales, HALF, TINY)]


def _wave(words: Array, a: int, b: int) -> list[Part]:
    before, now = _floats(words).reshape(2, a, b)
    near, far = (
        sum(np.roll(now, step, axis) for axis in (0, 1) for step in (-by, by)) for by in (1, 2)
    )
    found = now.copy()
    found[2:-2, 2:-2] = (2 * now - before + 0.2 * (16 * near - far - 60 * now) / 12)[2:-2, 2:-2]
    return [Part("f4", found, 1e-5, 1e-5)]


def _row_bins(words: Array, a: int, b: int) -> list[Part]:
    bins = np.minimum(_floats(words).reshape(a, b) * 32, 63).astype(np.int64)
    return [Part("u4", np.array([np.bincount(row, minlength=64) for row in bins]))]


def _columns(words: Array, a: int, b: int) -> list[Part]:
    return [Part("u4", words.reshape(a * b, 8).T)]


def _channels(words: Array, a: int, b: int) -> list[Part]:
    x = _floats(words).reshape(a, b, 256)
    return [Part("f4", np.stack([x.sum(axis=(0, 2)), (x * x).sum(axis=(0, 2))]), 1e-4)]


def _sorted(words: Array, a: int, b: int) -> list[Part]:
    x = words.reshape(a, b)
    order = np.argsort(x, axis=1, kind="stable")
    return [Part("u4", np.take_along_axis(x, order, axis=1)), Part("u4", order)]


def _potential(words: Array, a: int, b: int) -> list[Part]:
    x, y, z, charge = _floats(words).reshape(256, 4).T
    dx, dy = x - 0.01 * np.arange(b)[:, None], y - 0.01 * np.arange(a)[:, None, None]
    return [Part("f4", (charge / np.sqrt(dx**2 + dy**2 + (z + 0.5) ** 2)).sum(axis=2), 1e-5)]


def _edges(words: Array, a: int, b: int) -> list[Part]:
    x = np.pad(words.view(np.uint8).reshape(a, b).astype(int), 1, mode="edge")
    across, down = x[:, 2:] - x[:, :-2], x[2:] - x[:-2]
    across = across[:-2] + 2 * across[1:-1] + across[2:]
    down = down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]
    return [Part("u1", np.minimum(abs(across) + abs(down), 255))]


REFERENCES: dict[str, Callable[[Array, int, int], list[Part]]] = {
    "gated norm": _gated_norm,
    "residual norm to fp8": _norm_to_fp8,
    "norm of heads": _heads,
    "clamped gate": _clamped_gate,
    "fp8 by group": _by_group,
    "fp8 by tensor": _by_tensor,
    "rotary from a table": _rotary,
    "eight experts": _eight_experts,
    "drawn token": _drawn,
    "grammar mask": _grammar,
    "64th largest": _kth,
    "penalties of tokens": _penalties,
    "keys into pages": _paged,
    "rows of an int8 cache": _int8_rows,
    "joined splits": _joined,
    "latent keys": _latent,
    "slots by expert": _slots,
    "sum of experts": _experts_sum,
    "means of bags": _bags,
    "four-bit weights times a vector": _four_bits,
    "rows times an adapter": _adapter,
    "linear layer": _linear,
    "short attention": _attention,
    "blocks of int8 weights": _weight_blocks,
    "wave in a plane": _wave,
    "histogram of each row": _row_bins,
    "records to columns": _columns,
    "statistics of channels": _channels,
    "sorted pairs": _sorted,
    "potential of charges": _potential,
    "edges of a picture": _edges,
}
