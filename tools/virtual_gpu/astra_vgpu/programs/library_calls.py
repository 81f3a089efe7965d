"""cuBLAS' products of matrices and cuRAND's host generators, answered with NumPy.

Sums of floats and halves are made in float32 (of doubles in float64), in another order than on a
GPU. Random numbers have cuRAND's distributions and are others than its own.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from astra_vgpu.memory.buffers import Memory
from astra_vgpu.programs.library_operands import (
    DOUBLE,
    ILLEGAL_ADDRESS,
    INT,
    TYPES,
    Items,
    Matrix,
    NotAnswered,
    placed,
    scalar,
    see_unwritten,
)
from astra_vgpu.types import Fault

_OPERANDS = {"gemv": ("x", "A", "y"), "ger": ("x", "y", "A")}
"""What the operands of a product are called that is asked for under another name."""


def gemm(
    memory: Memory, call: str, words: Sequence[int], warned: Callable[[str, str], None]
) -> None:
    """C = alpha op(A) op(B) + beta C, in columns, for each of several matrices (cublas.c).

    warned: called with place and words where A or B were never written. Raises Fault for a matrix
    that no buffer holds whole, NotAnswered for types that are not known here.
    """
    m, n, k, count, turn_a, turn_b, scale, alpha_at, beta_at = words[:9]
    a, b, c = words[9:13], words[13:17], words[17:21]
    if not {scale, a[1], b[1], c[1]} <= TYPES.keys():
        raise NotAnswered(f"{call} of these types")
    alpha, beta = scalar(alpha_at, scale), scalar(beta_at, scale)
    exact = np.float64 if {DOUBLE, INT} & {scale, c[1]} else np.float32
    shapes = {"A": (k, m) if turn_a else (m, k), "B": (n, k) if turn_b else (k, n), "C": (m, n)}

    named = next((names for name, names in _OPERANDS.items() if call.endswith(name)), "ABC")

    def matrix(name: str, what: Sequence[int], number: int) -> Matrix:
        return placed(memory, call, named["ABC".index(name)], shapes[name], what, number)

    for number in range(count):
        left, right = matrix("A", a, number), matrix("B", b, number)
        result = matrix("C", c, number)
        for each in (left, right) if k and alpha else ():
            see_unwritten(each, warned)
        x, y = left.values(exact), right.values(exact)
        with np.errstate(all="ignore"):
            product = alpha * ((x.T if turn_a else x) @ (y.T if turn_b else y))
            result.store(product + beta * result.values(exact) if beta else product)


_DRAWS: tuple[tuple[Any, Callable[[np.random.Generator, int, float, float], Items]], ...] = (
    (np.uint32, lambda r, n, *_: r.integers(0, 1 << 32, n, np.uint32)),
    (np.uint64, lambda r, n, *_: r.integers(0, 1 << 64, n, np.uint64)),
    (np.float32, lambda r, n, *_: 1 - r.random(n, np.float32)),
    (np.float64, lambda r, n, *_: 1 - r.random(n)),
    (np.float32, lambda r, n, mean, sd: r.normal(mean, sd, n)),
    (np.float64, lambda r, n, mean, sd: r.normal(mean, sd, n)),
    (np.float32, lambda r, n, mean, sd: r.lognormal(mean, sd, n)),
    (np.float64, lambda r, n, mean, sd: r.lognormal(mean, sd, n)),
    (np.uint32, lambda r, n, mean, sd: r.poisson(mean, n)),
)
"""Type and numbers of each enum distribution of curand.c; uniform ones lie in (0, 1]."""


def random(memory: Memory, call: str, words: Sequence[int]) -> None:
    """Fills memory with random numbers that depend on seed and position only (curand.c).

    Raises Fault where no buffer holds them, unless they are for host memory.
    """
    what, count, seed, drawn, on_host, address = words[:6]
    mean, deviation = struct.unpack("<2d", struct.pack("<2q", *words[6:8]))
    dtype, draw = _DRAWS[what]
    nbytes = count * np.dtype(dtype).itemsize
    buffer = memory.find(address)
    if not on_host and (buffer is None or address + nbytes > buffer.address + buffer.nbytes):
        message = f"write of {nbytes} bytes at {memory.describe(address)}"
        raise Fault(
            "out_of_bounds", message, cuda_error=ILLEGAL_ADDRESS, where=f"host code, {call}"
        )
    generator = np.random.default_rng([seed % (1 << 64), drawn % (1 << 64), what])
    content = draw(generator, count, mean, deviation).astype(dtype).tobytes()
    ctypes.memmove(address, content, nbytes)
    if buffer is not None:
        buffer.mark_span(address - buffer.address, nbytes)
