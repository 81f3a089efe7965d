"""Logic, shifts and bit fields."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from astra_vgpu.numpy_engine.code import Code, Step, elementwise, family
from astra_vgpu.numpy_engine.dtypes import Array, dtype_of
from astra_vgpu.numpy_engine.frame import Frame
from astra_vgpu.ptx.syntax import Immediate, type_bits

_BITS = ("b16", "b32", "b64", "pred")
_LOGIC: dict[str, Callable[..., Array]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
}


def _logic(code: Code) -> Step:
    return elementwise(code, _LOGIC[code.instruction.family], code.type(*_BITS))


for _name in _LOGIC:
    family(_name)(_logic)


@family("cnot")
def cnot(code: Code) -> Step:
    return elementwise(code, lambda a: (a == 0).astype(a.dtype), code.type(*_BITS[:3]))


def shift_left(a: Array, amount: Array) -> Array:
    """Amounts of the width and more leave 0."""
    width = a.dtype.itemsize * 8
    shifted = a << np.minimum(amount, width - 1).astype(a.dtype)
    return np.asarray(np.where(amount < width, shifted, a.dtype.type(0)))


def shift_right(a: Array, amount: Array) -> Array:
    """Fills with the sign if the dtype has one; amounts of the width and more leave only that."""
    width = a.dtype.itemsize * 8
    shifted = a >> np.minimum(amount, width - 1).astype(a.dtype)
    if a.dtype.kind == "i":
        return np.asarray(shifted)
    return np.asarray(np.where(amount < width, shifted, a.dtype.type(0)))


@family("shl")
@family("shr")
def shift(code: Code) -> Step:
    left = code.instruction.family == "shl"
    type_name = code.type("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64")
    write, value = code.write(0, type_name), code.read(1, type_name)
    code.count(3)
    amount = code.operand(2)
    width = type_bits(type_name)
    if isinstance(amount, Immediate) and 0 <= amount.value < width:
        by = dtype_of(type_name).type(amount.value)
        if left:
            return lambda f: write(f, value(f) << by)
        return lambda f: write(f, value(f) >> by)
    compute = shift_left if left else shift_right
    amounts = code.read(2, "u32")
    return lambda f: write(f, compute(value(f), amounts(f)))


@family("shf")
def funnel_shift(code: Code) -> Step:
    """Shifts the 64 bits b:a; the result is their upper word after a left shift, their lower one
    after a right shift."""
    left = code.option("l", "r") == "l"
    wraps = code.option("wrap", "clamp") == "wrap"

    def compute(a: Array, b: Array, c: Array) -> Array:
        amount = c & np.uint32(31) if wraps else np.minimum(c, np.uint32(32))
        pair = (b.astype(np.uint64) << np.uint64(32)) | a
        if left:
            return ((pair << amount.astype(np.uint64)) >> np.uint64(32)).astype(np.uint32)
        return (pair >> amount.astype(np.uint64)).astype(np.uint32)

    return elementwise(code, compute, code.type("b32"))


@family("lop3")
def lop3(code: Code) -> Step:
    """Any function of three bits; its truth table is the immediate."""
    code.type("b32")
    code.count(5)
    table = code.operand(4)
    if not isinstance(table, Immediate):
        raise code.refuse("a table that is not a constant")
    write = code.write(0, "b32")
    a, b, c = (code.read(index, "b32") for index in (1, 2, 3))
    return lambda f: write(f, truth_table(a(f), b(f), c(f), table.value))


def truth_table(a: Array, b: Array, c: Array, table: int) -> Array:
    result = np.zeros((1, 1), np.uint32)
    for row in range(8):
        if table >> row & 1:
            term = (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
            result = result | term
    return result


@family("prmt")
def permute(code: Code) -> Step:
    """Four bytes picked from b:a; bit 3 of a pick repeats the byte's sign instead."""
    return elementwise(code, permute_bytes, code.type("b32"))


def permute_bytes(a: Array, b: Array, picks: Array) -> Array:
    pair = (b.astype(np.uint64) << np.uint64(32)) | a
    result = np.zeros((1, 1), np.uint32)
    for place in range(4):
        pick = (picks >> np.uint32(4 * place)) & np.uint32(15)
        shift = ((pick & np.uint32(7)) * np.uint32(8)).astype(np.uint64)
        byte = (pair >> shift).astype(np.uint32) & np.uint32(0xFF)
        sign = np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0))
        byte = np.where(pick & np.uint32(8), sign, byte)
        result = result | (byte << np.uint32(8 * place))
    return result


@family("popc")
def popc(code: Code) -> Step:
    return elementwise(
        code, lambda a: np.bitwise_count(a).astype(np.uint32), code.type("b32", "b64"), "u32"
    )


def bit_length(a: Array) -> Array:
    """uint32: position of the highest set bit plus one; 0 for 0."""
    if a.dtype.itemsize == 8:
        high, low = a >> np.uint64(32), a & np.uint64(0xFFFFFFFF)
        return np.where(high != 0, bit_length32(high) + np.uint32(32), bit_length32(low))
    return bit_length32(a)


def bit_length32(a: Array) -> Array:
    return np.frexp(a.astype(np.float64))[1].astype(np.uint32)


@family("clz")
def clz(code: Code) -> Step:
    type_name = code.type("b32", "b64")
    width = np.uint32(type_bits(type_name))
    return elementwise(code, lambda a: width - bit_length(a), type_name, "u32")


@family("bfind")
def bfind(code: Code) -> Step:
    """Highest bit that differs from the sign; all ones if there is none."""
    as_shift = code.flag("shiftamt")
    type_name = code.type("u32", "s32", "u64", "s64")
    width = np.uint32(type_bits(type_name))

    def compute(a: Array) -> Array:
        if a.dtype.kind == "i":
            a = (a ^ (a >> a.dtype.type(int(width) - 1))).view(dtype_of(f"u{width}"))
        length = bit_length(a)
        position = width - length if as_shift else length - np.uint32(1)
        return np.where(length == 0, np.uint32(0xFFFFFFFF), position)

    return elementwise(code, compute, type_name, "u32")


@family("brev")
def brev(code: Code) -> Step:
    return elementwise(code, reverse_bits, code.type("b32", "b64"))


def reverse_bits(a: Array) -> Array:
    width = a.dtype.itemsize * 8
    kind = a.dtype.type
    distance = width // 2
    mask = (1 << width) - 1
    while distance:
        mask ^= (mask << distance) & ((1 << width) - 1)
        a = ((a >> kind(distance)) & kind(mask)) | ((a & kind(mask)) << kind(distance))
        distance //= 2
    return a


@family("bfe")
def bfe(code: Code) -> Step:
    """The field of `length` bits at `position`, extended by its sign if the type has one."""
    type_name = code.type("u32", "s32", "u64", "s64")
    write, value = code.write(0, type_name), code.read(1, type_name)
    position, length = code.read(2, "u32"), code.read(3, "u32")
    code.count(4)
    return lambda f: write(f, extract(value(f), position(f), length(f)))


def _field(number: Array, width: int) -> Array:
    """Position or length of a field: of 32 bits the low byte counts; of 64, seen on an H200, the
    integer."""
    return number & np.uint32(0xFF) if width == 32 else np.minimum(number, np.uint32(0xFF))


def extract(a: Array, position: Array, length: Array) -> Array:
    width = a.dtype.itemsize * 8
    start, count = _field(position, width), _field(length, width)
    raw = a.view(np.dtype(f"u{a.dtype.itemsize}"))
    one = raw.dtype.type(1)
    field: Array = shift_right(raw, start) & (shift_left(np.full((1, 1), one), count) - one)
    if a.dtype.kind == "u":
        return field
    last = np.minimum(np.maximum(start + count, 1) - np.uint32(1), width - 1)
    sign = (shift_right(raw, last) & one).astype(np.bool_) & (count > 0)
    inside = np.minimum(count, np.where(start < width, width - start, 0)).astype(np.uint32)
    filled = field | shift_left(np.full((1, 1), ~raw.dtype.type(0)), inside)
    return np.asarray(np.where(sign, filled, field).view(a.dtype))


@family("bfi")
def bfi(code: Code) -> Step:
    """b with the lowest `length` bits of a at `position`."""
    type_name = code.type("b32", "b64")
    write = code.write(0, type_name)
    a, b = code.read(1, type_name), code.read(2, type_name)
    position, length = code.read(3, "u32"), code.read(4, "u32")
    code.count(5)
    return lambda f: write(f, insert(a(f), b(f), position(f), length(f)))


def insert(a: Array, b: Array, position: Array, length: Array) -> Array:
    width = a.dtype.itemsize * 8
    start, count = _field(position, width), _field(length, width)
    one = a.dtype.type(1)
    mask = shift_left(shift_left(np.full((1, 1), one), count) - one, start)
    return np.asarray((shift_left(a, start) & mask) | (b & ~mask))


@family("bmsk")
def bit_mask(code: Code) -> Step:
    """`width` ones from bit `start` up."""
    clamps = code.option("clamp", "wrap") == "clamp"
    return elementwise(code, lambda a, b: ones(a, b, clamps), code.type("b32"))


def ones(start: Array, width: Array, clamps: bool) -> Array:
    if not clamps:
        start, width = start & np.uint32(31), width & np.uint32(31)
    above = np.minimum(start, 32) + np.minimum(width, 32)
    every = np.full((1, 1), 0xFFFFFFFF, np.uint32)
    return np.asarray(shift_left(every, start) & ~shift_left(every, above))


@family("szext")
def extend(code: Code) -> Step:
    """The lowest bits, extended by their sign if the type has one."""
    clamps = code.option("clamp", "wrap") == "clamp"
    type_name = code.type("u32", "s32")
    write, value, width = code.write(0, type_name), code.read(1, type_name), code.read(2, "u32")
    code.count(3)
    nothing = np.zeros((1, 1), np.uint32)

    def step(f: Frame) -> None:
        count = np.minimum(width(f), 32) if clamps else width(f) & np.uint32(31)
        write(f, extract(value(f), nothing, count))

    return step


@family("fns")
def find_set_bit(code: Code) -> Step:
    """Position of the |n|-th set bit from `base` upwards, or downwards where n is negative; n = 0
    asks for `base` itself. All ones if there is none."""
    code.type("b32")
    code.count(4)
    write, mask = code.write(0, "b32"), code.read(1, "b32")
    base, wanted = code.read(2, "u32"), code.read(3, "s32")

    def step(f: Frame) -> None:
        bits, start, count = mask(f), base(f).astype(np.int64), wanted(f).astype(np.int64)
        left, position = np.maximum(np.abs(count), 1), np.full((1, 1), 0xFFFFFFFF, np.uint32)
        for distance in range(32):
            place = start + np.where(count < 0, -distance, distance)
            inside = (place >= 0) & (place < 32) & (start < 32) & ((count != 0) | (distance == 0))
            there = inside & (shift_right(bits, np.clip(place, 0, 31).astype(np.uint32)) & 1 == 1)
            left = left - there
            position = np.where(there & (left == 0), place, position).astype(np.uint32)
        write(f, position)

    return step
