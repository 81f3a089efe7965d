"""cvt between integers, floats and halves, with their roundings and saturations."""

from __future__ import annotations

from astra_vgpu.c_engine.code import Code, c_type, elementwise, family
from astra_vgpu.c_engine.floats import MODES
from astra_vgpu.numpy_engine.fp8 import NAMES
from astra_vgpu.ptx.syntax import type_bits

_FLOATS = ("f16", "bf16", "f32", "f64")
_TO_INTEGRAL = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


@family("cvt")
def cvt(code: Code) -> None:
    if any(m in NAMES for m in code.instruction.modifiers):
        _eight_bit_floats(code)
        return
    if any(m in ("f16x2", "bf16x2") for m in code.instruction.modifiers):
        _packed(code)
        return
    if "tf32" in code.instruction.modifiers:
        _tf32(code)
        return
    integral = code.optional(*_TO_INTEGRAL)
    mode = code.optional(*MODES).upper() or "RN"
    flushes, saturates, relu = code.flag("ftz"), code.flag("sat"), code.flag("relu")
    target, source = code.type(), code.type()
    if target in _FLOATS and source in _FLOATS:
        text = _between_floats(source, target, integral, mode, flushes, saturates, relu)
    elif target in _FLOATS:
        text = _from_integer(source, target, mode)
        if saturates:
            if target in ("f16", "bf16"):
                raise code.refuse("saturation of this type on the C engine")
            text = f"sat{target[1:]}({text})"
    elif source in _FLOATS:
        text = _to_integer(source, target, integral, flushes)
    else:
        text = _between_integers(source, target, saturates)
    elementwise(code, text, source, target)


def _eight_bit_floats(code: Code) -> None:
    """cvt.rn.satfinite{.relu}.f8x2.f32 d, high, low; .f8x2.f16x2 d, a; cvt.rn{.relu}.f16x2.f8x2."""
    code.option("rn")
    relu = code.flag("relu")
    narrows = code.flag("satfinite")
    name = code.option(*NAMES).removesuffix("x2")
    source = code.type()
    if not narrows:
        raw = f"x{code.keep(code.read(1, 'b16'), 'uint16_t')}"
        high, low = (
            f"half_of_{name}((uint8_t)({raw} >> {shift}), {int(relu)})" for shift in (8, 0)
        )
        code.write(0, "b32", f"(uint32_t){low} | (uint32_t){high} << 16")
        return
    if source == "f32":
        values = [code.read(index, "f32") for index in (1, 2)]
    else:
        packed = f"x{code.keep(code.read(1, 'b32'), 'uint32_t')}"
        values = [f"widen_f16((uint16_t)({packed} >> {shift}))" for shift in (16, 0)]
    high, low = (f"narrow_{name}({value}, {int(relu)})" for value in values)
    code.write(0, "b16", f"(uint16_t)({low} | {high} << 8)")


def _limits(type_name: str) -> tuple[int, int]:
    bits = type_bits(type_name)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if type_name[0] == "s" else (0, (1 << bits) - 1)


def _between_integers(source: str, target: str, saturates: bool) -> str:
    """Extended by the sign of the source."""
    plain = f"({c_type(target)}){{0}}"
    if not saturates:
        return plain
    (low, high), (least, most) = _limits(target), _limits(source)
    if most > high:
        plain = f"({{0}} > {high}{'' if high < 1 << 63 else 'u'}ll ? {high}ull : {plain})"
    if least < low:
        plain = f"({{0}} < {_literal(low)} ? {_literal(low)} : {plain})"
    return f"({c_type(target)}){plain}"


def _literal(value: int) -> str:
    return f"({value + 1}ll - 1)" if value < 0 else f"{value}"


def _float(source: str, flushes: bool) -> str:
    """Any float type as float or double, exactly."""
    if source in ("f16", "bf16"):
        return f"widen_{source}({{0}})"
    return "ftz({0})" if flushes and source == "f32" else "{0}"


def _integral(how: str, source: str, value: str) -> str:
    suffix = "" if source == "f64" else "f"
    return f"__builtin_{_TO_INTEGRAL[how]}{suffix}({value})"


def _to_integer(source: str, target: str, integral: str, flushes: bool) -> str:
    """Clamped to the target's range; NaN becomes 0, or the top bit where 64 bits take part."""
    bits = type_bits(target)
    wide = source == "f64" or bits == 64
    nan = f"({c_type(target)}){1 << (bits - 1) if wide else 0}ull"
    return f"to_{target}({_integral(integral, source, _float(source, flushes))}, {nan})"


def _from_integer(source: str, target: str, mode: str) -> str:
    """Through double, rounded to odd where it cannot hold 64 bits."""
    sign = "s" if source[0] == "s" else "u"
    if target == "f64":
        plain = mode == "RN" or type_bits(source) < 64
        return "(double){0}" if plain else f"{sign}64_directed({{0}}, {mode})"
    wide = f"odd_{sign}64({{0}})" if type_bits(source) == 64 else "(double){0}"
    if target == "f32":
        return "(float){0}" if mode == "RN" else f"float_of({wide}, {mode})"
    return f"half_{target}({wide}, {mode})"


def _between_floats(
    source: str,
    target: str,
    integral: str,
    mode: str,
    flushes: bool,
    saturates: bool,
    relu: bool,
) -> str:
    text = _float(source, flushes)
    bits = "64" if source == "f64" else "32"
    if integral:
        text = _integral(integral, source, text)
    if relu:
        text = f"relu{bits}({text})"
    if saturates:
        text = f"sat{bits}({text})"
    text = narrowed(text, target, mode, wide=source == "f64")
    return f"ftz({text})" if flushes and target == "f32" else text


def narrowed(text: str, target: str, mode: str, *, wide: bool) -> str:
    """A float, or with `wide` a double, as any float type."""
    if target == "f64":
        return f"(double)({text})"
    if target == "f32":
        return f"float_of({text}, {mode})" if wide else text
    if mode == "RN":
        return f"narrow{'64' if wide else ''}_{target}({text})"
    return f"half_{target}({text}, {mode})"


def _packed(code: Code) -> None:
    """cvt.rn.bf16x2.f32 d, high, low."""
    mode = code.option("rn", "rz").upper()
    relu = code.flag("relu")
    target = code.type()
    if code.type() != "f32":
        raise code.refuse("this source on the C engine")
    text = "relu32({0})" if relu else "{0}"
    half = narrowed(text, target.removesuffix("x2"), mode, wide=False)
    high, low = half.format(code.read(1, "f32")), half.format(code.read(2, "f32"))
    code.write(0, target, f"(uint32_t){low} | (uint32_t){high} << 16")


def _tf32(code: Code) -> None:
    mode = code.option("rna", "rn", "rz")
    value = "relu32({0})" if code.flag("relu") else "{0}"
    code.type()
    code.type()
    elementwise(code, f"tf32_{mode}({value})", "f32", "b32")
