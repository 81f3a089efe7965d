"""cvt between floats and pairs of 8-bit floats (e4m3, e5m2)."""

from __future__ import annotations

from astra_vgpu.c_engine.code import Code
from astra_vgpu.numpy_engine.fp8 import NAMES


def convert(code: Code) -> None:
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
