"""mov with packing and unpacking, cvta, isspacep."""

from __future__ import annotations

from astra_vgpu.c_engine.code import Code, constant, family, raw_type
from astra_vgpu.numpy_engine.address_spaces import WINDOWS
from astra_vgpu.ptx.syntax import Operand, Vector, type_bits


@family("mov")
def mov(code: Code) -> None:
    type_name = code.type()
    raw = "pred" if type_name == "pred" else f"b{type_bits(type_name)}"
    target, source = code.operand(0), code.operand(1)
    if isinstance(target, Vector):
        _unpack(code, target.items, type_bits(type_name))
    elif isinstance(source, Vector):
        _pack(code, source.items, type_bits(type_name))
    else:
        code.write(0, type_name if type_name[0] == "s" else raw, code.read(1, raw))


def _unpack(code: Code, items: tuple[Operand, ...], width: int) -> None:
    """mov.b32 {low, high}, r."""
    part = width // len(items)
    whole = f"x{code.keep(code.read(1, f'b{width}'), raw_type(width))}"
    for place, item in enumerate(items):
        code.put(item, f"b{part}", f"({raw_type(part)})({whole} >> {place * part})")


def _pack(code: Code, items: tuple[Operand, ...], width: int) -> None:
    part = width // len(items)
    parts = [
        f"({raw_type(width)}){code.reader(item, f'b{part}')} << {place * part}"
        for place, item in enumerate(items)
    ]
    code.put(code.operand(0), f"b{width}", " | ".join(parts))


@family("cvta")
def cvta(code: Code) -> None:
    """Between an address in a space and a generic one. Global and const ones are generic."""
    back = code.flag("to")
    space = code.option(
        "global", "const", "shared", "shared::cta", "local", "param", "param::entry"
    ).partition("::")[0]
    code.type()
    step = constant(WINDOWS.get(space, 0), 64)
    code.write(0, "u64", f"{code.read(1, 'u64')} {'-' if back else '+'} {step}")


@family("isspacep")
def isspacep(code: Code) -> None:
    space = code.option("global", "shared", "shared::cta", "local", "param").partition("::")[0]
    window = WINDOWS.get(space, 0) >> 56
    code.put(code.operand(0), "pred", f"({code.read(1, 'u64')} >> 56) == {window}")
