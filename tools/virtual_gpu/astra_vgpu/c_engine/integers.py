"""Integer arithmetic: add, mul, mad, div, rem, min, max, carry chains, dp4a, sad."""

from __future__ import annotations

from astra_vgpu.c_engine.code import Code, c_type, elementwise, family
from astra_vgpu.ptx.syntax import Register, type_bits

_SIGNS = {"add": "+", "sub": "-", "addc": "+", "subc": "-"}
CARRY = Register("%carry", "b32")
"""The condition code of add.cc and its like."""


def _raw(type_name: str) -> str:
    """The unsigned type of the same width: where signs do not matter."""
    return f"u{type_bits(type_name)}"


def _is_signed(type_name: str) -> bool:
    return type_name[0] == "s"


@family("add", "int")
@family("sub", "int")
def add_sub(code: Code) -> None:
    sign = _SIGNS[code.instruction.family]
    if code.flag("cc"):
        _carry(code, sign, carry_in=False, carry_out=True)
        return
    type_name = code.type()
    if type_name in ("u16x2", "s16x2"):
        elementwise(code, f"add_{type_name}({{}}, {{}})", "b32")
        return
    if code.flag("sat"):
        elementwise(code, f"clamp_s32((int64_t){{}} {sign} {{}})", "s32")
    else:
        elementwise(code, f"{{}} {sign} {{}}", _raw(type_name))


@family("addc", "int")
@family("subc", "int")
def add_sub_carry(code: Code) -> None:
    sign = _SIGNS[code.instruction.family]
    _carry(code, sign, carry_in=True, carry_out=code.flag("cc"))


def _carry(code: Code, sign: str, *, carry_in: bool, carry_out: bool) -> None:
    type_name = _raw(code.type())
    left, right = code.read(1, type_name), code.read(2, type_name)
    _with_carry(code, sign, type_name, left, right, carry_in=carry_in, carry_out=carry_out)


def _with_carry(
    code: Code, sign: str, type_name: str, left: str, right: str, *, carry_in: bool, carry_out: bool
) -> None:
    """Carry, or borrow, is the wrap-round of either of the two steps."""
    word = c_type(type_name)
    a = f"x{code.keep(left, word)}"
    b = f"x{code.keep(right, word)}"
    total = f"x{code.keep(f'{a} {sign} {b}', word)}"
    carry = f"({total} < {a})" if sign == "+" else f"({a} < {b})"
    if carry_in:
        bit = f"({word}){code.reader(CARRY, 'u32')}"
        final = f"x{code.keep(f'{total} {sign} {bit}', word)}"
        wrapped = f"{final} < {total}" if sign == "+" else f"{total} < {bit}"
        carry, total = f"({carry} | ({wrapped}))", final
    kept = f"x{code.keep(carry, 'uint32_t')}"
    code.write(0, type_name, total)
    if carry_out:
        code.put(CARRY, "u32", kept)


def _wide(type_name: str) -> str:
    return f"{type_name[0]}{2 * type_bits(type_name)}"


def _product(code: Code, type_name: str, part: str) -> str:
    """The product of sources 1 and 2: its lower or upper half, or all of it."""
    a, b = code.read(1, type_name), code.read(2, type_name)
    if part == "hi":
        return f"high_{'s' if _is_signed(type_name) else 'u'}{type_bits(type_name)}({a}, {b})"
    if part == "wide":
        wide = c_type(_wide(type_name))
        return f"({wide}){a} * ({wide}){b}"
    wide = "uint64_t" if type_bits(type_name) == 64 else "uint32_t"
    return f"({wide}){a} * {b}"


@family("mul", "int")
@family("mad", "int")
def multiply(code: Code) -> None:
    part = code.option("lo", "hi", "wide")
    if code.flag("cc"):
        _mad_carry(code, part, carry_in=False, carry_out=True)
        return
    type_name = code.type()
    if part == "lo":
        type_name = _raw(type_name)
    result = _wide(type_name) if part == "wide" else type_name
    product = _product(code, type_name, part)
    if code.instruction.family == "mad":
        product = f"{product} + {code.read(3, result)}"
    code.write(0, result, product, scalar=part == "hi" and type_bits(type_name) == 64)


@family("madc", "int")
def mad_with_carry(code: Code) -> None:
    part = code.option("lo", "hi")
    _mad_carry(code, part, carry_in=True, carry_out=code.flag("cc"))


def _mad_carry(code: Code, part: str, *, carry_in: bool, carry_out: bool) -> None:
    """Half of a product, added to c with the carry."""
    type_name = code.type()
    raw = _raw(type_name)
    half, addend = _product(code, type_name, part), code.read(3, raw)
    half = f"({c_type(raw)})({half})"
    _with_carry(code, "+", raw, half, addend, carry_in=carry_in, carry_out=carry_out)


@family("mul24")
@family("mad24")
def multiply24(code: Code) -> None:
    code.option("lo")
    type_name = code.type()
    product = f"cut24_{type_name}({{}}) * cut24_{type_name}({{}})"
    if code.instruction.family == "mad24":
        product += " + {}"
    elementwise(code, product, type_name)


@family("sad")
def sad(code: Code) -> None:
    elementwise(code, "({0} > {1} ? {0} - {1} : {1} - {0}) + {2}", code.type())


@family("div", "int")
@family("rem", "int")
def divide(code: Code) -> None:
    type_name = code.type()
    kind = f"{'s' if _is_signed(type_name) else 'u'}{type_bits(type_name)}"
    elementwise(code, f"{code.instruction.family}_{kind}({{}}, {{}})", type_name, scalar=True)


@family("abs", "int")
def absolute(code: Code) -> None:
    elementwise(code, "{0} < 0 ? 0 - {0} : {0}", code.type())


@family("neg", "int")
def neg(code: Code) -> None:
    elementwise(code, "0 - {}", code.type())


@family("min", "int")
@family("max", "int")
def extreme(code: Code) -> None:
    name = code.instruction.family
    if code.last_type in ("u16x2", "s16x2"):
        pair = f"{name}_{code.type()}({{0}}, {{1}})"
        elementwise(code, f"max_s16x2({pair}, 0)" if code.flag("relu") else pair, "b32")
        return
    sign = "<" if name == "min" else ">"
    chosen = f"({{0}} {sign} {{1}} ? {{0}} : {{1}})"
    if code.flag("relu"):
        chosen = f"({chosen} > 0 ? {chosen} : 0)"
    elementwise(code, chosen, code.type())


@family("dp4a")
def dp4a(code: Code) -> None:
    """d = c + sum of the products of four bytes."""
    _dot(code, "byte", range(4))


@family("dp2a")
def dp2a(code: Code) -> None:
    """d = c + sum of the products of two 16-bit numbers and two bytes."""
    _dot(code, "word", range(2) if code.option("lo", "hi") == "lo" else range(2, 4))


def _dot(code: Code, part: str, picked: range) -> None:
    """Bytes or words of a, in their order, by the picked bytes of b."""
    signs = [code.type()[0], code.type()[0]]
    a, b, c = code.read(1, "b32"), code.read(2, "b32"), code.read(3, "u32")
    terms = (
        f"(uint32_t)({part}_{signs[0]}({a}, {place}) * byte_{signs[1]}({b}, {byte}))"
        for place, byte in enumerate(picked)
    )
    code.write(0, "u32", f"{c} + {' + '.join(terms)}")


@family("vabsdiff2")
@family("vabsdiff4")
def packed_distance(code: Code) -> None:
    """Distances of 16-bit numbers or bytes, side by side; with .add their sum and c."""
    parts = int(code.instruction.family[-1])
    name = "word" if parts == 2 else "byte"
    code.type()
    signs = [code.type()[0], code.type()[0]]
    adds = code.flag("add")
    a, b, c = code.read(1, "b32"), code.read(2, "b32"), code.read(3, "u32")
    terms = (
        f"(uint32_t)distance({name}_{signs[0]}({a}, {k}), {name}_{signs[1]}({b}, {k}))"
        + ("" if adds else f" << {32 // parts * k}")
        for k in range(parts)
    )
    code.write(0, "u32", " + ".join([*([c] if adds else []), *(f"({term})" for term in terms)]))
