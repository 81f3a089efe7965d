"""f16 and bf16 arithmetic, single and packed: computed wider and rounded once."""

from __future__ import annotations

from astra_vgpu.c_engine.code import Code, elementwise, family
from astra_vgpu.c_engine.floats import of_magnitudes
from astra_vgpu.ptx.syntax import type_bits

SOURCES = ("{0}", "{1}", "{2}")


def name_of(type_name: str) -> str:
    """f16 or bf16, of a packed type too."""
    return type_name.removesuffix("x2")


def on_halves(code: Code, type_name: str, template: str, result: str = "") -> None:
    """A template of raw uint16 as an instruction of the type: once, or for both halves."""
    if not type_name.endswith("x2"):
        elementwise(code, template, type_name, result)
        return
    low, high = template, template
    for source in SOURCES:
        low = low.replace(source, f"((uint16_t){source})")
        high = high.replace(source, f"((uint16_t)({source} >> 16))")
    joined = f"(uint32_t)(uint16_t)({low}) | (uint32_t)(uint16_t)({high}) << 16"
    elementwise(code, joined, type_name, result)


def widened(template: str, type_name: str) -> str:
    for source in SOURCES:
        template = template.replace(source, f"widen_{name_of(type_name)}({source})")
    return template


def _finish(code: Code, template: str, *, double: bool = False) -> None:
    """template: of float sources to float, or to double where more bits are needed."""
    code.option("rn", default="rn")
    flushes = code.flag("ftz")
    saturates, relu = code.flag("sat"), code.flag("relu")
    type_name = code.type()
    bits = "64" if double else "32"
    if flushes:
        # A result goes that would be below the least normal number when rounded: its tie is kept.
        least, tie = ("0x1p-126f", 9) if type_name.startswith("bf") else ("0x1p-14f", 12)
        for source in SOURCES:
            template = template.replace(source, f"flush_below({source}, {least})")
        below = f"{least} * (1 - 0x1p-{tie}f)"
        template = f"flush_below{bits if double else ''}({template}, {below})"
    if saturates:
        template = f"sat{bits}({template})"
    if relu:
        template = f"relu{bits}({template})"
    narrow = f"narrow{'64' if double else ''}_{name_of(type_name)}"
    on_halves(code, type_name, f"{narrow}({widened(template, type_name)})")


@family("add", "half")
def add(code: Code) -> None:
    _finish(code, "{0} + {1}")


@family("sub", "half")
def sub(code: Code) -> None:
    _finish(code, "{0} - {1}")


@family("mul", "half")
def mul(code: Code) -> None:
    """The product of two bfloat16 may be subnormal as float; of two halves it never is."""
    if "bf16" in code.last_type:
        _finish(code, "((double){0} * {1})", double=True)
    else:
        _finish(code, "{0} * {1}")


@family("fma", "half")
def fma(code: Code) -> None:
    _finish(code, "odd_fma({0}, {1}, {2})", double=True)


@family("neg", "half")
@family("abs", "half")
def sign_bit(code: Code) -> None:
    type_name = code.type()
    mask = 0x80008000 if type_bits(type_name) == 32 else 0x8000
    if code.instruction.family == "neg":
        elementwise(code, f"{{0}} ^ {mask:#x}u", type_name)
    else:
        elementwise(code, f"{{0}} & ~{mask:#x}u", type_name)


@family("min", "half")
@family("max", "half")
def extreme(code: Code) -> None:
    if len(code.operands) != 3:
        raise code.refuse("three sources on the C engine")
    keep = int(code.flag("NaN"))
    _finish(code, of_magnitudes(code, f"{code.instruction.family}32({{0}}, {{1}}, {keep})"))


@family("ex2", "half")
def ex2(code: Code) -> None:
    code.option("approx")
    _finish(code, "exp2_double({0})", double=True)


@family("tanh", "half")
def tanh(code: Code) -> None:
    code.option("approx")
    _finish(code, "tanh_precise({0})")
