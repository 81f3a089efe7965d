"""Logic, shifts and bit fields."""

from __future__ import annotations

from astra_vgpu.c_engine.code import Code, elementwise, family
from astra_vgpu.ptx.syntax import Immediate, type_bits

_LOGIC = {"and": "{} & {}", "or": "{} | {}", "xor": "{} ^ {}", "not": "~{}"}


def _logic(code: Code) -> None:
    type_name, name = code.type(), code.instruction.family
    template = "{} ^ 1" if name == "not" and type_name == "pred" else _LOGIC[name]
    elementwise(code, template, type_name)


for _name in _LOGIC:
    family(_name)(_logic)


@family("cnot")
def cnot(code: Code) -> None:
    elementwise(code, "{} == 0", code.type())


@family("shl")
@family("shr")
def shift(code: Code) -> None:
    name, type_name = code.instruction.family, code.type()
    width, value = type_bits(type_name), code.read(1, type_name)
    amount = code.operand(2)
    sign = "s" if type_name[0] == "s" else "u"
    if isinstance(amount, Immediate) and 0 <= amount.value < width:
        text = f"{value} {'<<' if name == 'shl' else '>>'} {amount.value}"
    elif name == "shl":
        text = f"shl_b{width}({value}, {code.read(2, 'u32')})"
    else:
        text = f"shr_{sign}{width}({value}, {code.read(2, 'u32')})"
    code.write(0, type_name, text)


@family("shf")
def funnel_shift(code: Code) -> None:
    """Shifts the 64 bits b:a; the result is their upper word after a left shift, their lower one
    after a right shift."""
    direction = code.option("l", "r")
    amount = "{2} & 31" if code.option("wrap", "clamp") == "wrap" else "at_most({2}, 32)"
    elementwise(code, f"shf_{direction}({{0}}, {{1}}, {amount})", code.type())


@family("lop3")
def lop3(code: Code) -> None:
    """Any function of three bits; its truth table is the immediate."""
    code.type()
    table = code.operand(4)
    if not isinstance(table, Immediate):
        raise code.refuse("a table that is not a constant")
    a, b, c = (code.read(index, "b32") for index in (1, 2, 3))
    terms = [
        f"({'' if row & 4 else '~'}{a} & {'' if row & 2 else '~'}{b} & {'' if row & 1 else '~'}{c})"
        for row in range(8)
        if table.value >> row & 1
    ]
    code.write(0, "b32", " | ".join(terms) or "0")


@family("prmt")
def permute(code: Code) -> None:
    elementwise(code, "prmt({}, {}, {})", code.type())


@family("popc")
def popc(code: Code) -> None:
    type_name = code.type()
    suffix = "ll" if type_bits(type_name) == 64 else ""
    elementwise(code, f"__builtin_popcount{suffix}({{}})", type_name, "u32")


@family("clz")
def clz(code: Code) -> None:
    type_name = code.type()
    width = type_bits(type_name)
    elementwise(code, f"{width} - length{width}({{}})", type_name, "u32")


@family("bfind")
def bfind(code: Code) -> None:
    """Highest bit that differs from the sign; all ones if there is none."""
    as_shift = code.flag("shiftamt")
    type_name = code.type()
    width = type_bits(type_name)
    raw = f"({{0}} ^ ({{0}} >> {width - 1}))" if type_name[0] == "s" else "{0}"
    length = f"length{width}({raw})"
    expression = f"{width} - {length}" if as_shift else f"{length} - 1"
    elementwise(code, f"{length} ? {expression} : 0xFFFFFFFFu", type_name, "u32")


@family("brev")
def brev(code: Code) -> None:
    type_name = code.type()
    elementwise(code, f"brev{type_bits(type_name)}({{}})", type_name)


@family("bfe")
def bfe(code: Code) -> None:
    type_name = code.type()
    arguments = f"{code.read(1, type_name)}, {code.read(2, 'u32')}, {code.read(3, 'u32')}"
    code.write(0, type_name, f"bfe_{type_name}({arguments})")


@family("bfi")
def bfi(code: Code) -> None:
    type_name = code.type()
    values = f"{code.read(1, type_name)}, {code.read(2, type_name)}"
    code.write(
        0, type_name, f"bfi_{type_name}({values}, {code.read(3, 'u32')}, {code.read(4, 'u32')})"
    )


@family("bmsk")
def bit_mask(code: Code) -> None:
    """`width` ones from bit `start` up."""
    places = ("{0}", "{1}") if code.option("clamp", "wrap") == "clamp" else ("{0} & 31", "{1} & 31")
    elementwise(code, f"bmsk({places[0]}, {places[1]})", code.type())


@family("szext")
def extend(code: Code) -> None:
    """The lowest bits, extended by their sign if the type has one."""
    clamps = code.option("clamp", "wrap") == "clamp"
    type_name = code.type()
    width = f"at_most({code.read(2, 'u32')}, 32)" if clamps else f"{code.read(2, 'u32')} & 31"
    code.write(0, type_name, f"bfe_{type_name}({code.read(1, type_name)}, 0, {width})")


@family("fns")
def find_set_bit(code: Code) -> None:
    code.type()
    mask, base, wanted = code.read(1, "b32"), code.read(2, "u32"), code.read(3, "s32")
    code.write(0, "b32", f"find_set_bit({mask}, {base}, {wanted})", scalar=True)
