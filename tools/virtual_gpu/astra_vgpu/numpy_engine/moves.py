"""mov with packing and unpacking, cvta, isspacep."""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_vgpu.numpy_engine.address_spaces import WINDOWS
from astra_vgpu.numpy_engine.code import Code, Step, family
from astra_vgpu.numpy_engine.dtypes import Array, dtype_of, unsigned
from astra_vgpu.numpy_engine.frame import Frame
from astra_vgpu.ptx.syntax import Operand, Vector, type_bits

_MOVES = tuple("pred b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64 f16 bf16 f16x2 bf16x2".split())


@family("mov")
def mov(code: Code) -> Step:
    type_name = code.type(*_MOVES)
    code.count(2)
    target, source = code.operand(0), code.operand(1)
    if isinstance(target, Vector):
        return _unpack(code, target.items, type_bits(type_name))
    if isinstance(source, Vector):
        return _pack(code, source.items, type_bits(type_name))
    write, read = code.write(0, type_name), code.read(1, type_name)
    return lambda f: write(f, read(f))


def _part(code: Code, items: tuple[Operand, ...], width: int) -> Any:
    if len(items) not in (2, 4) or width % len(items):
        raise code.refuse("this packing")
    return unsigned(width // len(items))


def _unpack(code: Code, items: tuple[Operand, ...], width: int) -> Step:
    """mov.b32 {low, high}, r: views of the value's bytes where they lie."""
    part = _part(code, items, width)
    whole = unsigned(width)
    read = code.reader(code.operand(1), whole)
    writes = [code.writer(item, part) for item in items]

    def step(f: Frame) -> None:
        value = read(f)
        for place, write in enumerate(writes):
            shift = whole.type(place * part.itemsize * 8)
            write(f, (value >> shift if place else value).astype(part))

    return step


def _pack(code: Code, items: tuple[Operand, ...], width: int) -> Step:
    part = _part(code, items, width)
    whole = unsigned(width)
    reads = [code.reader(item, part) for item in items]
    write = code.writer(code.operand(0), whole)

    def step(f: Frame) -> None:
        total: Array = reads[0](f).astype(whole)
        for place, read in enumerate(reads[1:], start=1):
            total = total | (read(f).astype(whole) << whole.type(place * part.itemsize * 8))
        write(f, total)

    return step


@family("cvta")
def cvta(code: Code) -> Step:
    """Between an address in a space and a generic one. Global and const ones are generic."""
    back = code.flag("to")
    space = code.option(
        "global", "const", "shared", "shared::cta", "local", "param", "param::entry"
    ).partition("::")[0]
    type_name = code.type("u64", "u32")
    if type_name == "u32":
        raise code.refuse("32-bit generic addresses")
    code.count(2)
    write, read = code.write(0, "u64"), code.read(1, "u64")
    step = np.uint64(WINDOWS.get(space, 0))
    if not step:
        return lambda f: write(f, read(f))
    if back:
        return lambda f: write(f, read(f) - step)
    return lambda f: write(f, read(f) + step)


@family("isspacep")
def isspacep(code: Code) -> Step:
    space = code.option("global", "shared", "shared::cta", "local", "param").partition("::")[0]
    write = code.writer(code.operand(0), dtype_of("pred"))
    read = code.read(1, "u64")
    window = np.uint64(WINDOWS.get(space, 0) >> 56)
    return lambda f: write(f, (read(f) >> np.uint64(56)) == window)
