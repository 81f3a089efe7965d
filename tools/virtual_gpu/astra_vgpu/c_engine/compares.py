"""setp, set, selp, slct."""

from __future__ import annotations

from astra_vgpu.c_engine.code import Code, elementwise, family
from astra_vgpu.c_engine.floats import ftz
from astra_vgpu.c_engine.halves import on_halves, widened
from astra_vgpu.ptx.syntax import Sink, type_bits

_ORDERED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNSIGNED = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
_COMBINE = {"and": "&", "or": "|", "xor": "^"}


def _is_float(type_name: str) -> bool:
    return type_name in ("f32", "f64") or "f16" in type_name


def _float_comparison(code: Code) -> str:
    """NaN makes the ordered ones false, `ne` included, and the unordered ones (equ, ...) true."""
    lost = "(({0} != {0}) | ({1} != {1}))"
    if code.flag("num"):
        return f"({lost} ^ 1)"
    if code.flag("nan"):
        return lost
    name = code.option(*_ORDERED, *(f"{ordered}u" for ordered in _ORDERED))
    if name == "ne":
        return f"(({{0}} != {{1}}) & ({lost} ^ 1))"
    if name in _ORDERED:
        return f"({{0}} {_ORDERED[name]} {{1}})"
    return f"(({{0}} {_ORDERED[name[:-1]]} {{1}}) | {lost})"


def _comparison(code: Code, type_name: str) -> str:
    """A template that is 0 or 1; of raw halves where the type is one."""
    if not _is_float(type_name):
        name = code.option(*_ORDERED, *_UNSIGNED)
        return f"({{0}} {(_ORDERED | _UNSIGNED)[name]} {{1}})"
    template = _float_comparison(code)
    if type_name in ("f32", "f64"):
        return ftz(template, code.flag("ftz"))
    return widened(template, type_name)


@family("setp")
def setp(code: Code) -> None:
    """p|q = a op b, and its opposite, each joined with c if there is one."""
    type_name = code.last_type
    template = _comparison(code, type_name)
    code.type()
    if type_name.endswith("x2"):
        _setp_packed(code, template, type_name)
        return
    combine = code.optional(*_COMBINE)
    first, second = code.pair(0)
    compared = template.format(code.read(1, type_name), code.read(2, type_name))
    if not combine and isinstance(second, Sink):
        code.put(first, "pred", compared)
        return
    result = f"x{code.keep(compared, 'uint32_t')}"
    joined = f"{_COMBINE[combine or 'and']} {code.read(3, 'pred') if combine else '1'}"
    other = f"x{code.keep(f'({result} ^ 1) {joined}', 'uint32_t')}"
    code.put(first, "pred", f"{result} {joined}")
    code.put(second, "pred", other)


def _setp_packed(code: Code, template: str, type_name: str) -> None:
    """p is for the lower halves, q for the upper ones."""
    a = f"x{code.keep(code.read(1, type_name), 'uint32_t')}"
    b = f"x{code.keep(code.read(2, type_name), 'uint32_t')}"
    low, high = code.pair(0)
    code.put(low, "pred", template.format(f"(uint16_t){a}", f"(uint16_t){b}"))
    code.put(high, "pred", template.format(f"(uint16_t)({a} >> 16)", f"(uint16_t)({b} >> 16)"))


@family("set")
def set_(code: Code) -> None:
    """All ones, or 1.0 in a float type, where the comparison holds."""
    source = code.last_type
    template = _comparison(code, source)
    result = code.type()
    code.type()
    if source.endswith("x2"):
        each = result.removesuffix("x2") if result in ("f16x2", "bf16x2") else "u16"
        on_halves(code, source, f"({template} ? {_one(each)} : 0)")
        return
    raw = f"u{type_bits(result)}"
    elementwise(code, f"{template} ? {_one(result)} : 0", source, raw)


def _one(type_name: str) -> str:
    floats = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}
    return f"{floats.get(type_name, (1 << type_bits(type_name)) - 1):#x}u"


@family("selp")
def selp(code: Code) -> None:
    raw = f"b{type_bits(code.type())}"
    code.write(0, raw, f"{code.read(3, 'pred')} ? {code.read(1, raw)} : {code.read(2, raw)}")


@family("slct")
def slct(code: Code) -> None:
    """A where c is not negative, else b."""
    flushes = code.flag("ftz")
    raw = f"b{type_bits(code.type())}"
    chooser = ftz("{0}", flushes).format(code.read(3, code.type()))
    code.write(0, raw, f"{chooser} >= 0 ? {code.read(1, raw)} : {code.read(2, raw)}")
