"""mma, wmma, ldmatrix and stmatrix: a warp's registers as matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from astra_chat.tools.virtual_gpu.matrices import (
    BITS,
    Fragment,
    Product,
    matrix_count,
    mma_product,
    parts,
    wmma_product,
    wmma_transfer,
)
from astra_chat.tools.virtual_gpu.numpy_engine import frame as machine
from astra_chat.tools.virtual_gpu.numpy_engine.arena import Site, select
from astra_chat.tools.virtual_gpu.numpy_engine.code import Code, Read, Step, family
from astra_chat.tools.virtual_gpu.numpy_engine.convert import narrowed, widened
from astra_chat.tools.virtual_gpu.numpy_engine.frame import Active, Frame
from astra_chat.tools.virtual_gpu.numpy_engine.kinds import Array, dtype_of
from astra_chat.tools.virtual_gpu.numpy_engine.loads import (
    address_reader,
    fetcher,
    putter,
    resolved_space,
    space_of,
)
from astra_chat.tools.virtual_gpu.numpy_engine.rounding import fma64
from astra_chat.tools.virtual_gpu.numpy_engine.sums import aligned_sums, cut_float32
from astra_chat.tools.virtual_gpu.numpy_engine.warps import MISSING, rows
from astra_chat.tools.virtual_gpu.syntax import Operand, Vector
from astra_chat.tools.virtual_gpu.types import WARP_LANES

_RAW: dict[int, Any] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_NAN = np.uint32(0x7FFFFFFF)
_TF32 = np.uint32(0xFFFFE000)


def _decode(raw: Array, form: str) -> Array:
    """Raw bits as float64, or whole numbers as int64."""
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
    if f.races is not None:
        f.races.synced(active)


def _together(f: Frame, code: Code, active: Active) -> None:
    """PTX: all threads of a warp execute it, those that have ended included. Raises Fault."""
    _meet(f, active)
    here = rows(f, active.mask)
    torn = here & ~here.all(axis=1, keepdims=True)
    if torn.any():
        lane = int(np.argmax(torn.reshape(-1)))
        raise f.fault(
            code.instruction, "shuffle_missing_lane", MISSING, machine.LAUNCH_FAILURE, lane
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
    return aligned_sums(a, b, c, (product.a.format, product.b.format, product.c.format))


@family("wmma")
def wmma(code: Code) -> Step:
    how = code.option("load", "store", "mma")
    if how == "mma":
        return _multiply(code, wmma_product(code))
    place = 1 if how == "load" else 0
    space = resolved_space(code, space_of(code), code.operand(place))
    fragment, order = wmma_transfer(code)
    code.count(2, 3)
    base = address_reader(code, code.operand(place))
    stride = code.read(2, "u32") if len(code.operands) == 3 else None
    if how == "load":
        return _load(code, fragment, order, space, base, stride)
    return _store(code, fragment, order, space, base, stride)


def _places(
    f: Frame, fragment: Fragment, order: str, base: Read, stride: Read | None, element: int
) -> Array:
    """The address of one element of each lane."""
    at = np.array([lane[element] for lane in fragment.at])
    line, inside = np.divmod(at, fragment.columns)
    if order == "col":
        line, inside = inside, line
    usual = fragment.columns if order == "row" else fragment.rows
    lines = np.full((1, 1), usual, np.uint32) if stride is None else stride(f)
    size = BITS[fragment.format] // 8
    offset = rows(f, lines).astype(np.int64) * line + inside
    return (rows(f, base(f)) + (offset * size).astype(np.uint64)).reshape(f.shape)


def _load(
    code: Code, fragment: Fragment, order: str, space: str, base: Read, stride: Read | None
) -> Step:
    bits = BITS[fragment.format]
    word = dtype_of(f"b{fragment.word_bits}")
    writes = [code.writer(o, word) for o in parts(code, code.operand(0), fragment)]
    fetch = fetcher(space, Site(code.instruction, bits // 8, writes=False))
    active_lanes = code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if not active.count:
            return
        _together(f, code, active)
        found = [
            np.broadcast_to(fetch(f, _places(f, fragment, order, base, stride, e), active), f.shape)
            for e in range(fragment.different)
        ]
        _meet(f, active)
        copies = fragment.elements // fragment.different
        words = np.stack(found * copies, axis=2).view(word)
        for place, write in enumerate(writes):
            write(f, np.ascontiguousarray(words[..., place]))

    return step


def _store(
    code: Code, fragment: Fragment, order: str, space: str, base: Read, stride: Read | None
) -> Step:
    bits = BITS[fragment.format]
    word = dtype_of(f"b{fragment.word_bits}")
    reads = [code.reader(o, word) for o in parts(code, code.operand(1), fragment)]
    put = putter(space, Site(code.instruction, bits // 8, writes=True))
    active_lanes = code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if not active.count:
            return
        _together(f, code, active)
        words = np.stack([np.broadcast_to(read(f), f.shape) for read in reads], axis=2)
        elements = np.ascontiguousarray(words).view(_RAW[bits])
        for e in range(fragment.different):
            values = select(np.ascontiguousarray(elements[..., e]), active, f.shape)
            put(f, _places(f, fragment, order, base, stride, e), values, active)
        _meet(f, active)

    return step


def _rows_of(f: Frame, active: Active, count: int) -> Active:
    """The lanes that give addresses: eight for each matrix."""
    lane = np.arange(f.shape[1]) % WARP_LANES
    mask = active.mask & (lane < 8 * count)
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
        found = np.broadcast_to(fetch(f, address(f), _rows_of(f, active, count)), f.shape)
        _meet(f, active)
        halves = np.ascontiguousarray(found).view(np.uint16).reshape(-1, 4, 8, 8)
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
        lanes = _rows_of(f, active, count)
        put(f, address(f), select(lines, lanes, f.shape), lanes)
        _meet(f, active)

    return step
