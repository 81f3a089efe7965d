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


def _floats(words: Array) -> NDArray[np.float64]:
    return words.view(np.float32).astype(np.float64)


def _softmax(words: Array, a: int, b: int) -> list[Part]:
    x = bf16(words).reshape(a, b)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return [Part("bf16", e / e.sum(axis=1, keepdims=True), 2**-7)]


def _greedy(words: Array, a: int, b: int) -> list[Part]:
    return [Part("i4", _floats(words).reshape(a, b).argmax(axis=1))]


def _row_sums(words: Array, a: int, b: int) -> list[Part]:
    return [Part("f4", bf16(words).reshape(a, b).sum(axis=1), 1e-5)]


def _quantized(words: Array, a: int, b: int) -> list[Part]:
    x = bf16(words).reshape(a, b)
    scale = x.max(axis=1, keepdims=True) / 127
    return [Part("i1", np.rint(x / scale), least=1), Part("f4", scale, 1e-6)]


def _column_sums(words: Array, a: int, b: int) -> list[Part]:
    return [Part("f4", _floats(words).reshape(a, b).sum(axis=0), 1e-4)]


def _transposed(words: Array, a: int, b: int) -> list[Part]:
    return [Part("u2", words.view(np.uint16).reshape(a, b).T)]


def _embedded(words: Array, a: int, b: int) -> list[Part]:
    return [Part("u2", words[a:].view(np.uint16).reshape(a, b)[words[:a]])]


def _elements(words: Array, a: int, b: int) -> list[Part]:
    return [Part("u4", words[a * b :][words[: a * b]])]


def _pages(words: Array, a: int, b: int) -> list[Part]:
    return [Part("u2", words[a:].view(np.uint16).reshape(a, 16 * b)[words[:a]])]


def _bytes(words: Array, a: int, b: int) -> list[Part]:
    return [Part("u4", np.bincount(words.view(np.uint8), minlength=256))]


def _experts(words: Array, a: int, b: int) -> list[Part]:
    chosen = _floats(words).reshape(a, b).argmax(axis=1)
    return [Part("i4", chosen), Part("u4", np.bincount(chosen, minlength=b))]


def _offsets(words: Array, a: int, b: int) -> list[Part]:
    x = words.reshape(a, b)
    return [Part("u4", np.cumsum(x, axis=1, dtype=np.uint32) - x)]


def _prefix_sums(words: Array, a: int, b: int) -> list[Part]:
    return [Part("u4", np.cumsum(words, dtype=np.uint32))]


def _heat(x: Array) -> Array:
    inner = (slice(1, -1),) * x.ndim
    change = -2 * x.ndim * x[inner]
    for axis in range(x.ndim):
        for near in (slice(0, -2), slice(2, None)):
            at = list(inner)
            at[axis] = near
            change = change + x[tuple(at)]
    found = x.copy()
    found[inner] += 0.1 * change
    return found


def _plane(words: Array, a: int, b: int) -> list[Part]:
    return [Part("f4", _heat(_floats(words).reshape(a, b)), 1e-5, 1e-6)]


def _volume(words: Array, a: int, b: int) -> list[Part]:
    return [Part("f4", _heat(_floats(words).reshape(a, b, b)), 1e-5, 1e-6)]


def _taps(words: Array, a: int, b: int) -> list[Part]:
    w, x = bf16(words[: 2 * a]).reshape(a, 4), bf16(words[2 * a :]).reshape(a, b)
    behind = np.pad(x, ((0, 0), (3, 0)))
    sums = sum(w[:, k, None] * behind[:, k : k + b] for k in range(4))
    return [Part("bf16", sums / (1 + np.exp(-sums)), 2**-7, 1e-38)]


def _square(words: Array, a: int, b: int) -> list[Part]:
    x = _floats(words)
    return [Part("f4", x[: a * b].reshape(a, b) @ x[a * b :].reshape(a, b), 1e-4)]


def _tall(words: Array, a: int, b: int) -> list[Part]:
    x = bf16(words)
    return [Part("f4", x[64 * b :].reshape(a, b) @ x[: 64 * b].reshape(b, 64), 1e-4)]


def _vector(words: Array, a: int, b: int) -> list[Part]:
    x = bf16(words)
    return [Part("f4", x[b:].reshape(a, b) @ x[:b], 1e-4)]


def _ragged(words: Array, a: int, b: int) -> list[Part]:
    there = np.arange(b) < words[:a, None]
    return [Part("f4", np.where(there, _floats(words[a:]).reshape(a, b), 0).sum(axis=1), 1e-5)]


def _kinds(words: Array, a: int, b: int) -> list[Part]:
    kinds, x = words[: a * b], _floats(words[a * b :])
    folded = x
    for _ in range(12):
        folded = 0.9 * folded + x / (1 + folded)
    cubic = ((0.25 * x - 0.5) * x + 1.5) * x + 0.125
    of_kind = [np.exp(-x * x), np.log1p(x) * np.sqrt(x), folded, cubic]
    return [Part("f4", np.choose(kinds, of_kind), 1e-5)]


def _divisors(words: Array, a: int, b: int) -> list[Part]:
    pairs = words.reshape(-1, 2)
    return [Part("u4", np.gcd(pairs[:, 0], pairs[:, 1]))]


REFERENCES: dict[str, Callable[[Array, int, int], list[Part]]] = {
    "softmax over a vocabulary": _softmax,
    "greedy token": _greedy,
    "row sums of bf16": _row_sums,
    "int8 by token": _quantized,
    "gradient of a bias": _column_sums,
    "transpose of bf16": _transposed,
    "rows of an embedding": _embedded,
    "single elements": _elements,
    "pages of a cache": _pages,
    "histogram of bytes": _bytes,
    "tokens by expert": _experts,
    "offsets of rows": _offsets,
    "long prefix sum": _prefix_sums,
    "heat in a plane": _plane,
    "heat in a volume": _volume,
    "causal taps": _taps,
    "square product": _square,
    "tall product": _tall,
    "matrix times a vector": _vector,
    "sums of ragged rows": _ragged,
    "function of its kind": _kinds,
    "common divisors": _divisors,
}
