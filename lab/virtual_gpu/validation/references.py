"""Expected outputs of a set's kernels, by task, in NumPy: a wrong kernel's time does not count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.virtual_gpu.validation.points import Point, input_of

Array = NDArray[Any]
HALF = 2**-10
"""Relative error allowed for a number rounded to fp16."""
TINY = 2**-24
"""Distance between neighbours among the smallest numbers of fp16."""


@dataclass(frozen=True)
class Part:
    """What stands in the output, one part behind the other."""

    dtype: str
    """NumPy dtype name, or bf16."""
    values: Array
    share: float = 0.0
    """Allowed error as a share of the value: 0 for exact."""
    least: float = 0.0
    """Allowed error of any value."""


def wrong(point: Point, out: NDArray[np.uint8]) -> str:
    """The first wrong number in `out`, uint8 [out_bytes], as text; "" where all are right or the
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


def _silu_and_mul(words: Array, a: int, b: int) -> list[Part]:
    gate, up = _halves(words).reshape(a, 2, b).swapaxes(0, 1)
    return [Part("f2", gate / (1 + np.exp(-gate)) * up, HALF, TINY)]


def _add_and_norm(words: Array, a: int, b: int) -> list[Part]:
    """Some candidates round the sum before it is scaled."""
    x = _halves(words)
    kept = x[b:].reshape(2, a, b).sum(axis=0)
    normed = kept / np.sqrt((kept * kept).mean(axis=1, keepdims=True) + 1e-6) * x[:b]
    return [Part("f2", normed, 1.5 * HALF, TINY), Part("f2", kept, HALF, TINY)]


def _merged(words: Array, a: int, b: int) -> list[Part]:
    v = _halves(words[: 128 * a * b]).reshape(2, a * b, 128)
    e = np.exp(_floats(words[128 * a * b :]).reshape(2, a * b, 1))
    total = e.sum(axis=0)
    return [Part("f2", (v * e).sum(axis=0) / total, HALF, TINY), Part("f4", np.log(total), 1e-5)]


def _squared_error(words: Array, a: int, b: int) -> list[Part]:
    x, y = _floats(words).reshape(2, a * b)
    return [Part("f4", np.array([((x - y) ** 2).mean()]), 1e-4)]


def _variances(words: Array, a: int, b: int) -> list[Part]:
    x = _halves(words).reshape(a, b)
    return [Part("f4", x.mean(axis=1), 1e-5), Part("f4", x.var(axis=1), 1e-4)]


def _cosines(words: Array, a: int, b: int) -> list[Part]:
    x, y = _floats(words).reshape(2, a, b)
    xy, xx, yy = ((p * q).sum(axis=1) for p, q in ((x, y), (x, x), (y, y)))
    return [Part("f4", xy / np.sqrt(xx * yy), 1e-5)]


def _column_softmax(words: Array, a: int, b: int) -> list[Part]:
    e = np.exp(_floats(words).reshape(a, b))
    return [Part("f4", e / e.sum(axis=0), 1e-5)]


def _log_softmax_gradient(words: Array, a: int, b: int) -> list[Part]:
    y, g = _floats(words).reshape(2, a, b)
    return [Part("f4", g - np.exp(y) * g.sum(axis=1, keepdims=True), 1e-5)]


def _segments(words: Array, a: int, b: int) -> list[Part]:
    flags, x = words[: a * b].reshape(a, b) == 0, _floats(words[a * b :]).reshape(a, b)
    first = np.maximum.accumulate(np.where(flags, np.arange(b), 0), axis=1)
    before = np.take_along_axis(x.cumsum(axis=1) - x, first, axis=1)
    return [Part("f4", x.cumsum(axis=1) - before, 1e-5, 1e-9)]


def _taken(words: Array, a: int, b: int) -> list[Part]:
    ids, values = words.reshape(2, a, b)
    return [Part("u4", np.take_along_axis(values, ids, axis=1))]


def _edge_dots(words: Array, a: int, b: int) -> list[Part]:
    (sources, targets), x = words[: 16 * a].reshape(2, -1), _halves(words[16 * a :]).reshape(a, b)
    return [Part("f4", (x[sources] * x[targets]).sum(axis=1), 1e-5)]


def _turned(words: Array, a: int, b: int) -> list[Part]:
    return [Part("u1", words.view(np.uint8).reshape(a, b).T)]


def _channels_last(words: Array, a: int, b: int) -> list[Part]:
    return [Part("u2", words.view(np.uint16).reshape(a, 64, b).swapaxes(1, 2))]


def _volume(words: Array, a: int, b: int) -> list[Part]:
    x = _floats(words).reshape(a, b, b)
    sums, inner = x.copy(), (slice(1, -1),) * 3
    sums[inner] = 0
    for at in np.ndindex(3, 3, 3):
        weight = (0.4, 0.05, 0.015, 0.015)[sum(i != 1 for i in at)]
        sums[inner] += weight * np.roll(x, [1 - i for i in at], (0, 1, 2))[inner]
    return [Part("f4", sums, 1e-5)]


def _median(words: Array, a: int, b: int) -> list[Part]:
    x = np.pad(_floats(words).reshape(a, b), 1, mode="edge")
    return [Part("f4", np.median([x[i : i + a, j : j + b] for i, j in np.ndindex(3, 3)], axis=0))]


def _cosine_transforms(words: Array, a: int, b: int) -> list[Part]:
    u = np.arange(8)[:, None]
    c = np.cos((2 * u.T + 1) * u * np.pi / 16) / np.where(u, 2, np.sqrt(8))
    blocks = _floats(words).reshape(a // 8, 8, b // 8, 8).swapaxes(1, 2)
    return [Part("f4", (c @ blocks @ c.T).swapaxes(1, 2), 1e-5, 1e-5)]


def _joint_counts(words: Array, a: int, b: int) -> list[Part]:
    x, y = words.view(np.uint8).reshape(2, a * b) // 4
    return [Part("u4", np.bincount(64 * x.astype(int) + y, minlength=4096))]


def _int8_product(words: Array, a: int, b: int) -> list[Part]:
    x = words.view(np.int8).reshape(a + b, 256).astype(np.float64)
    return [Part("i4", x[:a] @ x[a:].T)]


def _anomalies(words: Array, a: int, b: int) -> list[Part]:
    mean, by = _floats(words).reshape(2, a * b)
    by = 0.45 * by
    e = mean + by * np.sin(mean)
    for _ in range(40):
        e = e - (e - by * np.sin(e) - mean) / (1 - by * np.cos(e))
    return [Part("f4", e, 1e-4, 5e-5)]


def _trees(words: Array, a: int, b: int) -> list[Part]:
    features, floats = words[: 1024 * b].reshape(b, 1024), _floats(words[1024 * b :])
    thresholds, leaves = floats[: 2048 * b].reshape(2, b, 1024)
    samples, sums = floats[2048 * b :].reshape(a, 32), np.zeros(a)
    for feature, threshold, leaf in zip(features, thresholds, leaves, strict=True):
        node, scores = np.zeros(a, int), np.full(a, np.nan)
        for _ in range(10):
            ends = np.isnan(scores) & (threshold[node] < 2**-13)
            scores[ends] = leaf[node[ends]]
            right = samples[np.arange(a), feature[node]] > threshold[node]
            node = np.where(np.isnan(scores), 2 * node + 1 + right, 0)
        sums += np.where(np.isnan(scores), leaf[node - 1023], scores)
    return [Part("f4", sums, 1e-5)]


def _normal(d: Array) -> Array:
    k = 1 / (1 + 0.2316419 * abs(d))
    terms = (1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.31938153, 0)
    tail = np.polyval(terms, k) * np.exp(-d * d / 2) / np.sqrt(2 * np.pi)
    return np.asarray(np.where(d > 0, 1 - tail, tail))


def _options(words: Array, a: int, b: int) -> list[Part]:
    s, x, t = _floats(words).reshape(3, a * b)
    s, x, t = 10 + 10 * s, 10 + 10 * x, 0.25 + t
    by = 0.3 * np.sqrt(t)
    d = (np.log(s / x) + (0.02 + 0.045) * t) / by
    first, second, value = _normal(d), _normal(d - by), x * np.exp(-0.02 * t)
    put = value * (1 - second) - s * (1 - first)
    return [Part("f4", s * first - value * second, 1e-4, 1e-4), Part("f4", put, 1e-4, 1e-4)]


def _nearest(words: Array, a: int, b: int) -> list[Part]:
    x = _floats(words).reshape(a + b, 8)
    apart = (((p - x[b:]) ** 2).sum(axis=1) for p in x[:b])
    return [Part("f4", np.min(list(apart), axis=0), 1e-4)]


REFERENCES: dict[str, Callable[[Array, int, int], list[Part]]] = {
    "silu and mul": _silu_and_mul,
    "fused add rmsnorm": _add_and_norm,
    "merge state": _merged,
    "mean squared error": _squared_error,
    "variance of rows": _variances,
    "cosines of rows": _cosines,
    "softmax down columns": _column_softmax,
    "gradient of a log softmax": _log_softmax_gradient,
    "sums between flags": _segments,
    "taken along rows": _taken,
    "dots along edges": _edge_dots,
    "bytes turned": _turned,
    "channels last": _channels_last,
    "points of a volume": _volume,
    "median of nine": _median,
    "cosine transforms": _cosine_transforms,
    "joint histogram": _joint_counts,
    "product of int8": _int8_product,
    "anomalies of orbits": _anomalies,
    "decision trees": _trees,
    "prices of options": _options,
    "nearest centres": _nearest,
}
