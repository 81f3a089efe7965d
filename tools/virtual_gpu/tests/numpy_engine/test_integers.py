"""Integer arithmetic and bit instructions against Python's integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[Any]
KINDS = ["u16", "s16", "u32", "s32", "u64", "s64"]


def dtype_of(kind: str) -> Any:
    return np.dtype(f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}")


def samples(kind: str, count: int = 400, seed: int = 0) -> Array:
    """Random values of all magnitudes, and the corners."""
    dtype = dtype_of(kind)
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    values = rng.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)
    values >>= rng.integers(0, limits.bits, count).astype(dtype)
    values[:4] = [0, 1, limits.max, limits.min]
    values[4:8] = [limits.max, limits.min, 0, 1]
    return values


def wrapped(values: list[int], dtype: Any) -> Array:
    bits = np.dtype(dtype).itemsize * 8
    raw = np.array([value % (1 << bits) for value in values], f"u{bits // 8}")
    return raw.view(dtype)


def check(
    operate: Any,
    opcode: str,
    kind: str,
    compute: Callable[..., int],
    operands: int = 2,
    result: str = "",
    last: str = "",
    tail: str = "",
) -> None:
    columns = [samples(kind, seed=seed) for seed in range(operands)]
    if last:
        columns[-1] = samples(last, seed=operands)
    target = dtype_of(result or kind)
    got = operate(opcode, target, *columns, tail=tail)
    rows = zip(*(map(int, column) for column in columns), strict=True)
    assert np.array_equal(got, wrapped([compute(*row) for row in rows], target)), opcode


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@pytest.mark.parametrize("kind", KINDS)
def test_arithmetic(operate: Any, kind: str) -> None:
    width = int(kind[1:])
    check(operate, f"add.{kind}", kind, lambda a, b: a + b)
    check(operate, f"sub.{kind}", kind, lambda a, b: a - b)
    check(operate, f"mul.lo.{kind}", kind, lambda a, b: a * b)
    check(operate, f"mul.hi.{kind}", kind, lambda a, b: a * b >> width)
    check(operate, f"mad.lo.{kind}", kind, lambda a, b, c: a * b + c, 3)
    check(operate, f"mad.hi.{kind}", kind, lambda a, b, c: (a * b >> width) + c, 3)
    check(operate, f"min.{kind}", kind, min)
    check(operate, f"max.{kind}", kind, max)
    check(operate, f"sad.{kind}", kind, lambda a, b, c: abs(a - b) + c, 3)
    check(operate, f"div.{kind}", kind, lambda a, b: truncated(a, b) if b else -1)
    check(operate, f"rem.{kind}", kind, lambda a, b: a - b * truncated(a, b) if b else -1)


@pytest.mark.parametrize("kind", KINDS[:4])
def test_wide_products(operate: Any, kind: str) -> None:
    double = f"{kind[0]}{2 * int(kind[1:])}"
    check(operate, f"mul.wide.{kind}", kind, lambda a, b: a * b, result=double)
    check(
        operate, f"mad.wide.{kind}", kind, lambda a, b, c: a * b + c, 3, result=double, last=double
    )


@pytest.mark.parametrize("kind", ["s16", "s32", "s64"])
def test_signs(operate: Any, kind: str) -> None:
    check(operate, f"neg.{kind}", kind, lambda a: -a, 1)
    check(operate, f"abs.{kind}", kind, abs, 1)


def test_24_bits(operate: Any) -> None:
    check(operate, "mul24.lo.u32", "u32", lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF))

    def signed(a: int) -> int:
        return ((a & 0xFFFFFF) ^ 0x800000) - 0x800000

    check(operate, "mad24.lo.s32", "s32", lambda a, b, c: signed(a) * signed(b) + c, 3)


def test_saturated_sum(operate: Any) -> None:
    check(operate, "add.sat.s32", "s32", lambda a, b: min(max(a + b, -(2**31)), 2**31 - 1))
    check(operate, "sub.sat.s32", "s32", lambda a, b: min(max(a - b, -(2**31)), 2**31 - 1))


@pytest.mark.parametrize(("name", "sign"), [("add", 1), ("sub", -1)])
def test_carries_make_wide_sums(operate: Any, name: str, sign: int) -> None:
    a, b = samples("u64", seed=1), samples("u64", seed=2)
    halves = [x.view(np.uint32).reshape(-1, 2).T.copy() for x in (a, b)]
    body = (
        f"{{ .reg .b32 low, high; {name}.cc.u32 low, %a0, %a2; {name}c.u32 high, %a1, %a3; "
        "mov.b64 %out, {low, high}; }"
    )
    got = operate("", np.uint64, *halves[0], *halves[1], body=body)
    expected = [int(x) + sign * int(y) for x, y in zip(a, b, strict=True)]
    assert np.array_equal(got, wrapped(expected, np.uint64))


@pytest.mark.parametrize("width", [16, 32, 64])
def test_logic(operate: Any, width: int) -> None:
    kind = f"u{width}"
    check(operate, f"and.b{width}", kind, lambda a, b: a & b)
    check(operate, f"or.b{width}", kind, lambda a, b: a | b)
    check(operate, f"xor.b{width}", kind, lambda a, b: a ^ b)
    check(operate, f"not.b{width}", kind, lambda a: ~a, 1)
    check(operate, f"cnot.b{width}", kind, lambda a: int(a == 0), 1)


@pytest.mark.parametrize("amount", [0, 1, 7, 15, 16, 31, 32, 33, 63, 64, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_shifts_clamp(operate: Any, kind: str, amount: int) -> None:
    width = int(kind[1:])
    by = np.full(400, amount, np.uint32)
    values = samples(kind)
    for opcode, compute in (
        (f"shl.b{width}", lambda a: a << amount),
        (f"shr.{kind}", lambda a: a >> amount),
    ):
        expected = wrapped([compute(int(v)) for v in values], values.dtype)
        assert np.array_equal(operate(opcode, values.dtype, values, by), expected)
        constant = operate(opcode, values.dtype, values, tail=f", {amount}")
        assert np.array_equal(constant, expected), (opcode, amount)


@pytest.mark.parametrize("mode", ["wrap", "clamp"])
def test_funnel_shifts(operate: Any, mode: str) -> None:
    a, b = samples("u32", seed=1), samples("u32", seed=2)
    c = np.arange(400, dtype=np.uint32) % 70
    amounts = [int(x) % 32 if mode == "wrap" else min(int(x), 32) for x in c]
    pairs = [int(y) << 32 | int(x) for x, y in zip(a, b, strict=True)]
    left = [p << n >> 32 for p, n in zip(pairs, amounts, strict=True)]
    right = [p >> n for p, n in zip(pairs, amounts, strict=True)]
    for direction, expected in (("l", left), ("r", right)):
        got = operate(f"shf.{direction}.{mode}.b32", np.uint32, a, b, c)
        assert np.array_equal(got, wrapped(expected, np.uint32))


@pytest.mark.parametrize("table", [0x00, 0x80, 0xC0, 0x96, 0xE8, 0xCA, 0x1B, 0xFF])
def test_three_input_logic(operate: Any, table: int) -> None:
    def compute(a: int, b: int, c: int) -> int:
        return sum(
            (table >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | (c >> k & 1)) & 1) << k
            for k in range(32)
        )

    check(operate, "lop3.b32", "u32", compute, 3, tail=f", {table}")


def test_permuted_bytes(operate: Any) -> None:
    def compute(a: int, b: int, picks: int) -> int:
        pool = (b << 32 | a).to_bytes(8, "little")
        result = []
        for place in range(4):
            pick = picks >> 4 * place & 15
            byte = pool[pick & 7]
            result.append((0xFF if byte & 0x80 else 0) if pick & 8 else byte)
        return int.from_bytes(bytes(result), "little")

    check(operate, "prmt.b32", "u32", compute, 3)


@pytest.mark.parametrize("width", [32, 64])
def test_counting_bits(operate: Any, width: int) -> None:
    kind = f"u{width}"
    check(operate, f"popc.b{width}", kind, lambda a: a.bit_count(), 1, result="u32")
    check(operate, f"clz.b{width}", kind, lambda a: width - a.bit_length(), 1, result="u32")
    check(operate, f"brev.b{width}", kind, lambda a: int(f"{a:0{width}b}"[::-1], 2), 1)
    check(operate, f"bfind.u{width}", kind, lambda a: a.bit_length() - 1, 1, result="u32")
    check(
        operate,
        f"bfind.s{width}",
        f"s{width}",
        lambda a: (~a if a < 0 else a).bit_length() - 1,
        1,
        result="u32",
    )
    check(
        operate,
        f"bfind.shiftamt.u{width}",
        kind,
        lambda a: width - a.bit_length() if a else -1,
        1,
        result="u32",
    )


@pytest.mark.parametrize("kind", KINDS[2:])
def test_bit_fields(operate: Any, kind: str) -> None:
    width = int(kind[1:])
    rng = np.random.default_rng(4)
    position = rng.integers(0, width + 8, 400).astype(np.uint32)
    length = rng.integers(0, width + 8, 400).astype(np.uint32)
    position[:50], length[50:100] = 256 + 3, 512 + 5
    a, b = samples(kind, seed=1), samples(kind, seed=2)

    def field(number: int) -> int:
        """What counts of a position or a length: its low byte for 32 bits, the whole number for 64,
        as an H200 answered."""
        return number & 255 if width == 32 else min(number, 255)

    def extracted(value: int, start: int, count: int) -> int:
        start, count = field(start), field(count)
        bits = [
            value >> min(start + k, width - 1) & 1 if start + k < width else 0
            for k in range(min(count, width))
        ]
        sign = 0
        if kind[0] == "s" and count:
            sign = value >> min(start + count - 1, width - 1) & 1
        bits = [bit if start + k < width else sign for k, bit in enumerate(bits)]
        bits += [sign] * (width - len(bits))
        return sum(bit << k for k, bit in enumerate(bits))

    got = operate(f"bfe.{kind}", a.dtype, a, position, length)
    rows = list(zip(map(int, position), map(int, length), strict=True))
    expected = [extracted(int(v), *row) for v, row in zip(a, rows, strict=True)]
    assert np.array_equal(got, wrapped(expected, a.dtype))

    def inserted(low: int, high: int, start: int, count: int) -> int:
        mask = ((1 << field(count)) - 1 << field(start)) & (1 << width) - 1
        return low << field(start) & mask | high & ~mask

    got = operate(f"bfi.b{width}", a.dtype, a, b, position, length)
    expected = [inserted(int(x), int(y), *row) for x, y, row in zip(a, b, rows, strict=True)]
    assert np.array_equal(got, wrapped(expected, a.dtype))


@pytest.mark.parametrize("left", ["u32", "s32"])
@pytest.mark.parametrize("right", ["u32", "s32"])
def test_dot_of_bytes(operate: Any, left: str, right: str) -> None:
    def byte(word: int, place: int, kind: str) -> int:
        value = word >> 8 * place & 255
        return value - 256 if kind == "s32" and value > 127 else value

    def compute(a: int, b: int, c: int) -> int:
        return c + sum(byte(a, k, left) * byte(b, k, right) for k in range(4))

    check(operate, f"dp4a.{left}.{right}", "u32", compute, 3)


@pytest.mark.parametrize("source", ["u8", "s8", *KINDS])
@pytest.mark.parametrize("target", KINDS)
def test_conversions_extend_by_the_source(operate: Any, source: str, target: str) -> None:
    values = samples(source)
    limits = np.iinfo(dtype_of(target))
    dtype = dtype_of(target)
    registers = values if source[1:] != "8" else values.astype(dtype_of(f"{source[0]}16"))
    got = operate(f"cvt.{target}.{source}", dtype, registers)
    assert np.array_equal(got, wrapped([int(v) for v in values], dtype))
    if all(limits.min <= v <= limits.max for v in (int(values.min()), int(values.max()))):
        return  # ptxas takes no .sat where nothing is lost
    clamped = operate(f"cvt.sat.{target}.{source}", dtype, registers)
    assert list(clamped) == [min(max(int(v), limits.min), limits.max) for v in values]


def test_a_byte_of_a_wider_register(operate: Any) -> None:
    values = np.array([0x1234, 0x00FF, 0x0080], np.uint16)
    assert list(operate("cvt.u32.u8", np.uint32, values)) == [0x34, 0xFF, 0x80]
    assert list(operate("cvt.s32.s8", np.int32, values)) == [0x34, -1, -128]
    assert list(operate("cvt.s8.s16", np.int16, values)) == [0x34, -1, -128]


def bit_mask(start: int, width: int) -> int:
    """The mask as PTX's manual spells bmsk.clamp."""
    if start >= 32:
        return 0
    return ((1 << width) - 1) << start & 0xFFFFFFFF if width < 32 else -1 << start


def test_bit_mask_and_extension(operate: Any) -> None:
    few = samples("u32", seed=7) % np.uint32(40)
    wide = samples("u32", seed=8)
    other = few[::-1].copy()
    got = operate("bmsk.clamp.b32", np.uint32, few, other)
    rows = [(int(a), int(b)) for a, b in zip(few, other, strict=True)]
    assert np.array_equal(got, wrapped([bit_mask(a, b) for a, b in rows], np.uint32))
    got = operate("bmsk.wrap.b32", np.uint32, few, other)
    assert np.array_equal(got, wrapped([bit_mask(a % 32, b % 32) for a, b in rows], np.uint32))
    for mode in ("clamp", "wrap"):
        widths = [min(b, 32) if mode == "clamp" else b % 32 for _, b in rows]
        for kind in ("u32", "s32"):
            got = operate(f"szext.{mode}.{kind}", dtype_of(kind), wide, other)
            low = [int(a) % (1 << w) for a, w in zip(wide, widths, strict=True)]
            signed = [
                v - (1 << w) if kind == "s32" and w and v >> (w - 1) else v
                for v, w in zip(low, widths, strict=True)
            ]
            assert np.array_equal(got, wrapped(signed, dtype_of(kind))), (mode, kind)


@pytest.mark.parametrize("signs", ["u32.u32", "s32.s32", "u32.s32", "s32.u32"])
@pytest.mark.parametrize("half", ["lo", "hi"])
def test_dot_of_words_and_bytes(operate: Any, signs: str, half: str) -> None:
    a, b, c = (samples("u32", seed=seed) for seed in (3, 4, 5))
    kinds = signs.split(".")

    def part(word: int, place: int, width: int, kind: str) -> int:
        value = word >> (width * place) & ((1 << width) - 1)
        return value - (1 << width) if kind == "s32" and value >> (width - 1) else value

    first = 0 if half == "lo" else 2
    expected = [
        int(z)
        + sum(
            part(int(x), i, 16, kinds[0]) * part(int(y), first + i, 8, kinds[1]) for i in range(2)
        )
        for x, y, z in zip(a, b, c, strict=True)
    ]
    got = operate(f"dp2a.{half}.{signs}", np.uint32, a, b, c)
    assert np.array_equal(got, wrapped(expected, np.uint32))


@pytest.mark.parametrize("width", [32, 64])
def test_products_with_carries_make_wide_sums(operate: Any, width: int) -> None:
    kind = f"u{width}"
    a, b, c, d = (samples(kind, seed=seed) for seed in (11, 12, 13, 14))
    body = (
        f"{{ .reg .b{width} low, high; mad.lo.cc.{kind} low, %a0, %a1, %a2; "
        f"madc.hi.{kind} high, %a0, %a1, %a3; xor.b{width} %out, high, low; }}"
    )
    got = operate("", dtype_of(kind), a, b, c, d, body=body)
    expected = []
    for x, y, low, high in zip(*(map(int, column) for column in (a, b, c, d)), strict=True):
        total = x * y + low + (high << width)
        expected.append((total >> width) ^ (total % (1 << width)))
    assert np.array_equal(got, wrapped(expected, dtype_of(kind)))


@pytest.mark.parametrize("kind", ["u16x2", "s16x2"])
@pytest.mark.parametrize("name", ["add", "min", "max"])
def test_pairs_of_words(operate: Any, kind: str, name: str) -> None:
    half = np.dtype(np.uint16 if kind[0] == "u" else np.int16)
    a, b = (samples("u32", seed=seed).view(half) for seed in (21, 22))
    compute = {"add": np.add, "min": np.minimum, "max": np.maximum}[name]
    got = operate(f"{name}.{kind}", np.uint32, a.view(np.uint32), b.view(np.uint32))
    assert np.array_equal(got.view(half), compute(a, b))
    if name != "add" and kind[0] == "s":
        got = operate(f"{name}.{kind}.relu", np.uint32, a.view(np.uint32), b.view(np.uint32))
        assert np.array_equal(got.view(half), np.maximum(compute(a, b), 0))


def test_the_nth_set_bit(operate: Any) -> None:
    masks, rng = samples("u32", seed=31), np.random.default_rng(32)
    bases = rng.integers(0, 34, masks.size, dtype=np.uint32)
    wanted = rng.integers(-6, 7, masks.size, dtype=np.int32)

    def find(mask: int, base: int, n: int) -> int:
        places = [base] if n == 0 else range(base, 32) if n > 0 else range(base, -1, -1)
        hits = [at for at in places if at < 32 and mask >> at & 1]
        return hits[max(abs(n), 1) - 1] if len(hits) >= max(abs(n), 1) and base < 32 else -1

    got = operate("fns.b32", np.uint32, masks, bases, wanted)
    rows = zip(*(map(int, column) for column in (masks, bases, wanted)), strict=True)
    assert np.array_equal(got, wrapped([find(*row) for row in rows], np.uint32))


@pytest.mark.parametrize("sign", ["u32", "s32"])
@pytest.mark.parametrize("parts", [2, 4])
def test_packed_distances(operate: Any, sign: str, parts: int) -> None:
    a, b, c = (samples("u32", seed=seed) for seed in (41, 42, 43))
    width = 32 // parts
    kind = np.dtype(f"{'i' if sign == 's32' else 'u'}{width // 8}")
    distances = np.abs(a.view(kind).astype(np.int64) - b.view(kind).astype(np.int64))
    opcode = f"vabsdiff{parts}.{sign}.{sign}.{sign}"
    got = operate(opcode, np.uint32, a, b, c)
    assert np.array_equal(got.view(f"u{width // 8}"), distances.astype(f"u{width // 8}"))
    got = operate(f"{opcode}.add", np.uint32, a, b, c)
    assert np.array_equal(got, (c + distances.reshape(-1, parts).sum(axis=1)).astype(np.uint32))
