"""The inputs of the numerics test: fixed by a seed, the same on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lab.virtual_gpu.numerics.instruction import WIDTHS, ComparedInstruction

Bits = NDArray[np.unsignedinteger]
SEED = 20261121
FULL = 1 << 20
"""Inputs of an instruction of 32 bits."""
SMALLER = 1 << 18
"""Inputs of an instruction with a 64-bit source, two or three 16-bit sources or integer operands;
threads of a matrix product."""
FEW = 1 << 12
SAMPLED_WARPS = 44
_SPECIAL = {
    16: "0000 8000 0001 8001 03ff 0400 8400 3c00 bc00 3c01 3bff 7bff fbff 7c00 fc00 7e00 7fff "
    "3f80 bf80 007f 0080 7f7f ff7f 7f80 ff80 7fc0 4000 4248 4049 3555",
    32: "00000000 80000000 00000001 80000001 007fffff 00800000 80800000 3f800000 bf800000 3f800001 "
    "3f7fffff 7f7fffff ff7fffff 7f800000 ff800000 7fc00000 7fffffff ffc00001 40490fdb 3fc90fdb "
    "40c90fdb 7e800000 7e800001 7f000000 00400000 4b800000 4f000000 cf000000 5f000000 43000000 "
    "c3160000 c2fc0000",
    64: "0000000000000000 8000000000000000 0000000000000001 8000000000000001 000fffffffffffff "
    "0010000000000000 3ff0000000000000 bff0000000000000 3ff0000000000001 3fefffffffffffff "
    "7fefffffffffffff ffefffffffffffff 7ff0000000000000 fff0000000000000 7ff8000000000000 "
    "41dfffffffc00000 c1e0000000000000 43e0000000000000 47efffffe0000000 36a0000000000000 "
    "40efffffe0000000 3e60000000000000",
}
"""Zeros, units, the ends of each format's ranges, NaNs, multiples of pi, powers of two."""
_FLOATS = {
    "f16": (16, 10, 15),
    "bf16": (16, 7, 127),
    "f32": (32, 23, 127),
    "f64": (64, 52, 1023),
    "tf32": (32, 23, 127),
}
"""Bits, bits of the fraction, and the exponent's bias."""


def count(instruction: ComparedInstruction) -> int:
    """How many inputs; of a matrix product, threads."""
    if instruction.few:
        return FEW
    if instruction.is_matrix:
        return SMALLER
    sources = instruction.sources
    if sources == "h":
        return 1 << 16
    if "l" in sources or "h" in sources or instruction.domain == "int":
        return SMALLER
    return FULL


def sample(number: int) -> NDArray[np.int64]:
    """Places of the few inputs of which answers are kept: whole warps, special values included."""
    warps = number // 32
    spread = np.linspace(0, warps - 1, SAMPLED_WARPS - 16, dtype=np.int64)
    last = np.arange(max(warps - 17, 0), warps - 1)
    chosen = np.concatenate([spread, last])
    return (chosen[:, None] * 32 + np.arange(32)).ravel()


def inputs(instruction: ComparedInstruction) -> list[Bits]:
    """One array of raw bits for each source register."""
    number = count(instruction)
    sources = instruction.sources.replace("|", "")
    if instruction.is_matrix:
        return _matrices(instruction, number)
    return [
        _array(instruction.domain, WIDTHS[letter], place, number, len(sources))
        for place, letter in enumerate(sources)
    ]


def _random(name: str, place: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([SEED, place, *name.encode()]))


def _array(domain: str, width: int, place: int, number: int, sources: int) -> Bits:
    """Special values combined with each other, random bits, values of usual size, a grid; those of
    later operands are close to the first's, or small counts, in some places."""
    raw = np.dtype(f"u{width // 8}")
    if width == 16 and sources == 1:
        return np.arange(1 << 16, dtype=np.uint16)
    generator = _random(f"{domain}{width}", place)
    bits = (
        generator.integers(0, 1 << width, number, dtype=np.uint64, endpoint=False)
        if (width < 64)
        else generator.integers(0, (1 << 64) - 1, number, dtype=np.uint64, endpoint=True)
    )
    bits = bits.astype(raw)
    quarter = number // 4
    if domain == "int":
        bits[quarter : 2 * quarter] &= raw.type(0x7F)
        bits[2 * quarter : 2 * quarter + 64] = np.arange(64)
    elif width == 32 and domain in ("f16", "bf16"):
        low, high = (_usual(domain, generator, quarter) for _ in "ab")
        bits[:quarter] = low.astype(raw) | (high.astype(raw) << raw.type(16))
    else:
        bits[:quarter] = _usual(domain, generator, quarter)
        if place:
            first = _array(domain, width, 0, number, sources)
            middle = slice(quarter, quarter + quarter // 2)
            near = generator.integers(0, 16, quarter // 2).astype(raw)
            bits[middle] = first[middle] ^ near ^ raw.type(1 << (width - 1))
        elif domain == "f32":
            grid = np.linspace(-16, 16, quarter, endpoint=False, dtype=np.float32)
            bits[3 * quarter :] = grid.view(np.uint32)
    return _with_specials(bits, width, place, sources)


def _with_specials(bits: Bits, width: int, place: int, sources: int) -> Bits:
    special = np.array([int(word, 16) for word in _SPECIAL[width].split()], bits.dtype)
    grid = np.meshgrid(*[special] * min(sources, 3), indexing="ij")
    mixed = grid[min(place, 2)].ravel()[: bits.size // 8]
    bits[-mixed.size :] = mixed
    return bits


def _usual(domain: str, generator: np.random.Generator, number: int) -> Bits:
    """Random fractions and signs, exponents up to 12 from 1's."""
    width, fraction, bias = _FLOATS[domain]
    raw = np.dtype(f"u{width // 8}")
    exponent = generator.integers(bias - 12, bias + 13, number).astype(raw)
    sign = generator.integers(0, 2, number).astype(raw)
    rest = generator.integers(0, 1 << fraction, number).astype(raw)
    bits: Bits = (sign << raw.type(width - 1)) | (exponent << raw.type(fraction)) | rest
    return bits


def _matrices(instruction: ComparedInstruction, number: int) -> list[Bits]:
    """Registers of A, B and C. By warps: values of equal size, of one sign, of very different
    sizes, random bits (with infinities and NaNs) in one warp of 64."""
    parts = instruction.sources.split("|")
    registers = []
    for place in range(sum(map(len, parts))):
        form = instruction.domain
        if form != "int" and place >= len(parts[0]) + len(parts[1]):
            form = instruction.accumulator or instruction.result
        registers.append((_doubles if form == "f64" else _fragment)(form, place, number))
    return registers


def _doubles(form: str, place: int, number: int) -> Bits:
    """Values of like size, or of very different sizes, by warps; random bits in one of 64."""
    generator = _random(f"matrix {form}", place)
    warp = np.repeat(np.arange(number // 32), 32)
    exponent = 1023 - generator.integers(0, 1 << 30, number) % np.where(warp % 2 == 0, 2, 30)
    rest = generator.integers(0, 1 << 52, number, dtype=np.uint64)
    sign = generator.integers(0, 2, number).astype(np.uint64) << np.uint64(63)
    usual = sign | exponent.astype(np.uint64) << np.uint64(52) | rest
    anything = generator.integers(0, (1 << 64) - 1, number, dtype=np.uint64, endpoint=True)
    return np.where(warp % 64 == 63, anything, usual)


def _fragment(form: str, place: int, number: int) -> Bits:
    generator = _random(f"matrix {form}", place)
    if form == "int":
        return generator.integers(0, 1 << 32, number, dtype=np.uint64).astype(np.uint32)
    each = 32 // _FLOATS[form][0]
    warp = np.repeat(np.arange(number) // 32, each)
    size = number * each
    width, fraction, bias = _FLOATS[form]
    spread = np.select([warp % 4 == 0, warp % 4 == 1, warp % 4 == 2], [1, 3, 6], 12)
    exponent = bias - generator.integers(0, 1 << 30, size) % spread
    sign = np.where(warp % 8 == 0, 0, generator.integers(0, 2, size))
    rest = generator.integers(0, 1 << fraction, size)
    values = (sign << (width - 1)) | (exponent << fraction) | rest
    anything = generator.integers(0, 1 << width, size)
    zero = generator.integers(0, 16, size) == 0
    values = np.where(warp % 64 == 63, anything, np.where(zero & (warp % 4 == 3), 0, values))
    return np.ascontiguousarray(values.astype(f"u{width // 8}")).view(np.uint32)
