"""mma, wmma, ldmatrix and stmatrix: a warp's registers as matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_vgpu.isa.fragments import BITS, Fragment, MatrixAccess, Transfer
from astra_vgpu.isa.matrices import (
    FRACTION_BITS,
    MIN_EXPONENT,
    Product,
    matrix_count,
    mma_product,
    parts,
    wmma_product,
    wmma_transfer,
)
from astra_vgpu.numpy_engine import frame as machine
from astra_vgpu.numpy_engine.address_spaces import Site, select
from astra_vgpu.numpy_engine.code import Code, Read, Step, family
from astra_vgpu.numpy_engine.convert import narrowed, widened
from astra_vgpu.numpy_engine.dtypes import Array, dtype_of, unsigned
from astra_vgpu.numpy_engine.frame import Active, Frame
from astra_vgpu.numpy_engine.loads import (
    address_reader,
    fetcher,
    putter,
    resolved_space,
    space_of,
)
from astra_vgpu.numpy_engine.rounding import float32_of, fma64
from astra_vgpu.numpy_engine.warps import MASK_MISMATCH, rows
from astra_vgpu.ptx.syntax import Operand, Vector
from astra_vgpu.types import WARP_LANES

_NOTHING = -5000
"""Exponent of a zero: it takes no part in the alignment."""
_WARPS = 128
"""At once, for the sake of memory."""


def aligned_sums(a: Array, b: Array, c: Array, formats: tuple[str, str, str]) -> Array:
    """A [warps, m, k] times b [warps, k, n] plus c [warps, m, n], of float64, as float64."""
    parts = [
        _aligned(a[at : at + _WARPS], b[at : at + _WARPS], c[at : at + _WARPS], formats)
        for at in range(0, len(a), _WARPS)
    ]
    return np.concatenate(parts) if parts else c


def _aligned(a: Array, b: Array, c: Array, formats: tuple[str, str, str]) -> Array:
    terms = np.concatenate([a[:, :, :, None] * b[:, None, :, :], c[:, :, None, :]], axis=2)
    ea, eb, ec = (_exponents(x, form) for x, form in zip((a, b, c), formats, strict=True))
    exponents = (ea[:, :, :, None] + eb[:, None, :, :]).max(axis=2)
    top = np.clip(np.maximum(exponents, ec), -600, 600)
    unit = np.ldexp(1.0, FRACTION_BITS - top)
    total = np.trunc(terms * unit[:, :, None, :]).sum(axis=2)
    plain = terms.sum(axis=2)
    result = np.where(total == 0, np.where(plain == 0, plain, 0.0), total / unit)
    return np.where(np.isfinite(terms).all(axis=2), result, plain)


def _exponents(values: Array, form: str) -> Array:
    exponents = np.maximum(np.frexp(values)[1] - 1, MIN_EXPONENT[form])
    return np.where(values == 0, _NOTHING, exponents)


def cut_float32(value: Array) -> Array:
    """float64 cut to float32, but infinite where it is too large."""
    return np.where(np.abs(value) < 2.0**128, float32_of(value, "rz"), value.astype(np.float32))


_RAW: dict[int, Any] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_NAN = np.uint32(0x7FFFFFFF)
_TF32 = np.uint32(0xFFFFE000)


def _decode(raw: Array, form: str) -> Array:
    """Raw bits as float64, or integers as int64."""
    if form in ("f16", "bf16"):
        wide: Array = widened(form)(raw).astype(np.float64)
        return wide
    if form == "f64":
        return raw.view(np.float64)
    if form in ("f32", "tf32"):
        kept = raw & _TF32 if form == "tf32" else raw
        real: Array = kept.view(np.float32).astype(np.float64)
        return real
    whole: Array = raw.view(dtype_of(form)).astype(np.int64)
    return whole


def _encode(value: Array, form: str, saturates: bool) -> Array:
    if form == "s32":
        if saturates:
            value = np.clip(value, -(1 << 31), (1 << 31) - 1)
        return value.astype(np.uint32)
    if form == "f64":
        return value.view(np.uint64)
    if form == "f32":
        rounded = cut_float32(value)
        return np.where(np.isnan(rounded), _NAN, rounded.view(np.uint32))
    narrow: Callable[[Array], Array] = narrowed(form, "rn")
    return narrow(value)


def _meet(f: Frame, active: Active) -> None:
    """A lane gives addresses for the others: what it touches is touched before and after those of
    all."""
    f.synced(active)


def _together(f: Frame, code: Code, active: Active) -> None:
    """PTX: all threads of a warp execute it, those that have ended included. Raises Fault."""
    _meet(f, active)
    here = rows(f, active.mask)
    torn = here & ~here.all(axis=1, keepdims=True)
    if torn.any():
        lane = int(np.argmax(torn.reshape(-1)))
        raise f.fault(
            code.instruction, "shuffle_missing_lane", MASK_MISMATCH, machine.LAUNCH_FAILURE, lane
        )


def _matrix(f: Frame, fragment: Fragment, reads: Sequence[Read]) -> Array:
    """[warps, rows, columns]"""
    words = np.stack([rows(f, read(f)) for read in reads], axis=2)
    elements = np.ascontiguousarray(words).view(_RAW[BITS[fragment.format]])
    flat = np.empty((words.shape[0], fragment.rows * fragment.columns), elements.dtype)
    flat[:, np.array(fragment.at).reshape(-1)] = elements.reshape(words.shape[0], -1)
    return _decode(flat, fragment.format).reshape(-1, fragment.rows, fragment.columns)


@family("mma")
def mma(code: Code) -> Step:
    return _multiply(code, mma_product(code))


def _multiply(code: Code, product: Product) -> Step:
    code.count(4)
    form = product.d
    word = dtype_of(f"b{form.word_bits}")
    writes = [code.writer(o, word) for o in parts(code, code.operand(0), form)]
    sources = [
        [
            code.reader(o, dtype_of(f"b{fragment.word_bits}"))
            for o in parts(code, code.operand(place), fragment)
        ]
        for place, fragment in ((1, product.a), (2, product.b), (3, product.c))
    ]
    active_lanes = code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if not active.count:
            return
        _together(f, code, active)
        a, b, total = (
            _matrix(f, fragment, reads)
            for fragment, reads in zip((product.a, product.b, product.c), sources, strict=True)
        )
        total = _summed(product, a, b, total)
        raw = _encode(total, form.format, product.saturates).reshape(total.shape[0], -1)
        held = np.ascontiguousarray(raw[:, np.array(form.at)]).view(word)
        for place, write in enumerate(writes):
            write(f, np.ascontiguousarray(held[..., place]).reshape(f.shape))

    return step


def _summed(product: Product, a: Array, b: Array, c: Array) -> Array:
    if product.is_integer:
        for k in range(product.a.columns):
            c = c + a[:, :, k, None] * b[:, k, None, :]
        return c
    if product.d.format == "f64":
        for k in range(product.a.columns):
            left, right = a[:, :, k, None], b[:, k, None, :]
            c = fma64(*map(np.ascontiguousarray, np.broadcast_arrays(left, right, c)))
        return c
    formats = product.a.format, product.b.format, product.c.format
    for number, part in enumerate(product.steps):
        if number:
            c = cut_float32(c).astype(np.float64)
        c = aligned_sums(a[:, :, part], b[:, part], c, formats)
    return cut_float32(c).astype(np.float64) if product.is_narrowed else c


@family("wmma")
def wmma(code: Code) -> Step:
    how = code.option("load", "store", "mma")
    if how == "mma":
        return _multiply(code, wmma_product(code))
    place = 1 if how == "load" else 0
    space = resolved_space(code, space_of(code), code.operand(place))
    transfer, usual = wmma_transfer(code, space)
    code.count(2, 3)
    base = address_reader(code, code.operand(place))
    stride = code.read(2, "u32") if len(code.operands) == 3 else None
    if how == "load":
        return _load(code, transfer, space, _Lines(base, stride, usual))
    return _store(code, transfer, space, _Lines(base, stride, usual))


@dataclass(frozen=True)
class _Lines:
    """A matrix in memory."""

    base: Read
    stride: Read | None
    usual: int
    """Distance of lines, in elements, where no stride is given."""

    def places(self, f: Frame, access: MatrixAccess, bits: int) -> Array:
        """Where each lane's part of an access begins: uint64, as lanes."""
        at = np.zeros((WARP_LANES, 2), np.int64)
        at[: len(access.at)] = access.at
        stride = np.full((1, 1), self.usual, np.uint32) if self.stride is None else self.stride(f)
        offset = rows(f, stride).astype(np.int64) * at[:, 0] + at[:, 1]
        return (rows(f, self.base(f)) + (offset * (bits // 8)).astype(np.uint64)).reshape(f.shape)


def _load(code: Code, transfer: Transfer, space: str, lines: _Lines) -> Step:
    fragment = transfer.fragment
    bits = BITS[fragment.format]
    word = dtype_of(f"b{fragment.word_bits}")
    writes = [code.writer(o, word) for o in parts(code, code.operand(0), fragment)]
    levels = code.unit.levels.get(id(code.instruction), ())
    fetch = fetcher(space, Site(code.instruction, transfer.size, writes=False, levels=levels))
    copies = fragment.elements // fragment.different
    source = np.tile(np.array(transfer.source), copies)
    active_lanes = code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if not active.count:
            return
        _together(f, code, active)
        _turn(f, active, transfer)
        loaded = [
            fetch(f, lines.places(f, access, bits), _first_lanes(f, active, len(access.at)))
            for access in transfer.accesses
        ]
        _meet(f, active)
        carried = np.stack([rows(f, each) for each in loaded], axis=1)
        elements = carried.view(_RAW[bits]).reshape(carried.shape[0], -1)
        words = np.ascontiguousarray(elements[:, source]).view(word)
        for place, write in enumerate(writes):
            write(f, np.ascontiguousarray(words[..., place]).reshape(f.shape))

    return step


def _store(code: Code, transfer: Transfer, space: str, lines: _Lines) -> Step:
    fragment = transfer.fragment
    bits = BITS[fragment.format]
    word = dtype_of(f"b{fragment.word_bits}")
    reads = [code.reader(o, word) for o in parts(code, code.operand(1), fragment)]
    put = putter(space, Site(code.instruction, transfer.size, writes=True))
    item = np.complex128 if transfer.size == 16 else unsigned(transfer.size * 8)
    target = np.array(transfer.target).reshape(len(transfer.accesses), -1)
    active_lanes = code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if not active.count:
            return
        _together(f, code, active)
        _turn(f, active, transfer)
        words = np.stack([rows(f, read(f)) for read in reads], axis=2)
        elements = np.ascontiguousarray(words).view(_RAW[bits]).reshape(words.shape[0], -1)
        for access, held in zip(transfer.accesses, target, strict=True):
            items = np.ascontiguousarray(elements[:, held]).view(item)
            values = select(items.reshape(f.shape), active, f.shape)
            put(f, lines.places(f, access, bits), values, active)
        _meet(f, active)

    return step


def _turn(f: Frame, active: Active, transfer: Transfer) -> None:
    if f.counters is not None and transfer.turned:
        f.counters.turned(active, len(transfer.accesses))


def _first_lanes(f: Frame, active: Active, count: int) -> Active:
    """The lanes of each warp that give addresses."""
    if count == WARP_LANES:
        return active
    mask = active.mask & (np.arange(f.shape[1]) % WARP_LANES < count)
    return Active(mask, int(np.count_nonzero(mask)))


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


@family("ldmatrix")
def load_matrix(code: Code) -> Step:
    """Lane l gives the address of row l % 8 of matrix l / 8, and gets two neighbours of a row, or
    with .trans of a column."""
    space = resolved_space(code, space_of(code), code.operand(1))
    count, transposed = matrix_count(code)
    code.count(2)
    items = _items(code.operand(0))
    if len(items) != count:
        raise code.refuse("this number of registers")
    address = address_reader(code, code.operand(1))
    writes = [code.writer(item, dtype_of("b32")) for item in items]
    fetch = fetcher(space, Site(code.instruction, 16, writes=False))
    active_lanes = code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if not active.count:
            return
        _together(f, code, active)
        loaded = np.broadcast_to(fetch(f, address(f), _first_lanes(f, active, 8 * count)), f.shape)
        _meet(f, active)
        halves = np.ascontiguousarray(loaded).view(np.uint16).reshape(-1, 4, 8, 8)
        if transposed:
            halves = halves.transpose(0, 1, 3, 2)
        words = np.ascontiguousarray(halves).view(np.uint32).reshape(-1, 4, WARP_LANES)
        for place, write in enumerate(writes):
            write(f, np.ascontiguousarray(words[:, place]).reshape(f.shape))

    return step


@family("stmatrix")
def store_matrix(code: Code) -> Step:
    """The inverse of ldmatrix."""
    space = resolved_space(code, space_of(code), code.operand(0))
    count, transposed = matrix_count(code)
    code.count(2)
    items = _items(code.operand(1))
    if len(items) != count:
        raise code.refuse("this number of registers")
    address = address_reader(code, code.operand(0))
    reads = [code.reader(item, dtype_of("b32")) for item in items]
    put = putter(space, Site(code.instruction, 16, writes=True))
    active_lanes = code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if not active.count:
            return
        _together(f, code, active)
        words = np.zeros((f.live.size // WARP_LANES, 4, WARP_LANES), np.uint32)
        for place, read in enumerate(reads):
            words[:, place] = rows(f, read(f))
        halves = words.view(np.uint16).reshape(-1, 4, 8, 8)
        if transposed:
            halves = halves.transpose(0, 1, 3, 2)
        lines = np.ascontiguousarray(halves).view(np.complex128).reshape(f.shape)
        lanes = _first_lanes(f, active, 8 * count)
        put(f, address(f), select(lines, lanes, f.shape), lanes)
        _meet(f, active)

    return step
