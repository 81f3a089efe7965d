"""The instructions of the numerics test, with the widths of their operands.

Approximate ones have the bound that NVIDIA states (PTX ISA 9.0, sections 9.7.3 and 9.7.4, "Notes"
of each instruction).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

from lab.virtual_gpu.numerics.instruction import ComparedInstruction
from lab.virtual_gpu.numerics.matrices import matrices


@cache
def instructions() -> tuple[ComparedInstruction, ...]:
    """All of them, exact ones first; names are unique."""
    return tuple(
        [
            *_floats(),
            *_halves(),
            *_conversions(),
            *_bytes_of_floats(),
            *_integers(),
            *matrices(),
            *_special(),
        ]
    )


def _exact(
    name: str, shape: str, domain: str, result: str = "", **more: object
) -> ComparedInstruction:
    return ComparedInstruction(name, shape, domain, result, **more)  # type: ignore[arg-type]


_MODES = ("rn", "rz", "rm", "rp")
_ARITY = {"add": 2, "sub": 2, "mul": 2, "div": 2, "fma": 3, "rcp": 1, "sqrt": 1}


def _floats() -> Iterator[ComparedInstruction]:
    for how, mode in product(_ARITY, _MODES):
        for tail in ("", ".ftz") + ((".sat", ".ftz.sat") if how in ("add", "mul", "fma") else ()):
            yield _exact(f"{how}.{mode}{tail}.f32", "r:" + "r" * _ARITY[how], "f32", "f32")
        few = mode != "rn"
        yield _exact(f"{how}.{mode}.f64", "l:" + "l" * _ARITY[how], "f64", "f64", few=few)
    for how in ("min", "max"):
        for tail in ("", ".ftz", ".NaN", ".ftz.NaN"):
            yield _exact(f"{how}{tail}.f32", "r:rr", "f32", "f32")
        yield _exact(f"{how}.f64", "l:ll", "f64", "f64")
    for how in ("neg", "abs"):
        yield _exact(f"{how}.f32", "r:r", "f32", "f32")
        yield _exact(f"{how}.ftz.f32", "r:r", "f32", "f32")
        yield _exact(f"{how}.f64", "l:l", "f64", "f64")
    yield _exact("copysign.f32", "r:rr", "f32", "f32")
    yield _exact("copysign.f64", "l:ll", "f64", "f64")
    for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        yield _predicate(f"testp.{test}.f32", "r:r", "f32")
        yield _predicate(f"testp.{test}.f64", "r:l", "f64")
    orders = ("eq", "ne", "lt", "le", "gt", "ge")
    unordered = (*(f"{order}u" for order in orders), "num", "nan")
    for order in (*orders, *unordered):
        yield _predicate(f"setp.{order}.f32", "r:rr", "f32")
        yield _predicate(f"setp.{order}.f16", "r:hh", "f16")
        yield _predicate(f"setp.{order}.bf16", "r:hh", "bf16")
        yield _predicate(f"setp.{order}.f64", "r:ll", "f64")
    yield _predicate("setp.lt.ftz.f32", "r:rr", "f32")
    yield _exact("set.gt.u32.f32", "r:rr", "f32")
    yield _exact("set.le.f32.f32", "r:rr", "f32")
    yield _exact("set.ltu.f16.f16", "h:hh", "f16")
    yield _exact("slct.f32.s32", "r:rrr", "f32")


def _predicate(name: str, shape: str, domain: str) -> ComparedInstruction:
    places = ", ".join(f"%{n}" for n in range(1, len(shape) - 1))
    text = f"{{ .reg .pred p; {name} p, {places}; selp.u32 %0, 1, 0, p; }}"
    return ComparedInstruction(name, shape, domain, text=text)


def _halves() -> Iterator[ComparedInstruction]:
    for how, form in product(("add", "sub", "mul", "fma"), ("f16", "bf16")):
        sources = _ARITY[how]
        tails = [""] + ([".ftz", ".sat", ".ftz.sat"] if form == "f16" else [])
        if how == "fma":
            tails.append(".relu")
        for tail in tails:
            yield _exact(f"{how}.rn{tail}.{form}", "h:" + "h" * sources, form, form)
            yield _exact(f"{how}.rn{tail}.{form}x2", "r:" + "r" * sources, form, form)
    for how, form, tail in product(("min", "max"), ("f16", "bf16"), ("", ".NaN")):
        yield _exact(f"{how}{tail}.{form}", "h:hh", form, form)
        yield _exact(f"{how}{tail}.{form}x2", "r:rr", form, form)
    for how, form in product(("neg", "abs"), ("f16", "bf16")):
        yield _exact(f"{how}.{form}", "h:h", form, form)
        yield _exact(f"{how}.{form}x2", "r:r", form, form)


_LETTER = {"8": "r", "16": "h", "32": "r", "64": "l"}
_FLOAT_LETTER = {"f16": "h", "bf16": "h", "f32": "r", "f64": "l"}
_WHOLE = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")


def _conversions() -> Iterator[ComparedInstruction]:
    yield from _between_floats()
    for source, target in product(("f16", "f32", "f64"), _WHOLE):
        for rounding in ("rni", "rzi", "rmi", "rpi"):
            shape = f"{_LETTER[target[1:]]}:{_FLOAT_LETTER[source]}"
            yield _exact(f"cvt.{rounding}.{target}.{source}", shape, source)
    yield _exact("cvt.rzi.ftz.s32.f32", "r:r", "f32")
    for source, target in product(_WHOLE, ("f16", "f32", "f64")):
        for rounding in _MODES:
            shape = f"{_FLOAT_LETTER[target]}:{_LETTER[source[1:]]}"
            few = target == "f64" and source.endswith("64") and rounding != "rn"
            yield _exact(f"cvt.{rounding}.{target}.{source}", shape, "int", target, few=few)
    for source, target in product(_WHOLE, _WHOLE):
        shape = f"{_LETTER[target[1:]]}:{_LETTER[source[1:]]}"
        yield _exact(f"cvt.{target}.{source}", shape, "int")
        if not _includes(target, source):
            yield _exact(f"cvt.sat.{target}.{source}", shape, "int")


def _includes(wide: str, narrow: str) -> bool:
    """Has the first integer type all values of the second?"""
    if wide[0] == narrow[0]:
        return int(wide[1:]) >= int(narrow[1:])
    return wide[0] == "s" and int(wide[1:]) > int(narrow[1:])


def _between_floats() -> Iterator[ComparedInstruction]:
    for rounding in _MODES:
        yield _exact(f"cvt.{rounding}.f32.f64", "r:l", "f64", "f32")
        yield _exact(f"cvt.{rounding}.ftz.f32.f64", "r:l", "f64", "f32")
        if rounding in ("rm", "rp"):
            yield _exact(f"cvt.{rounding}.f16.f32", "h:r", "f32", "f16")
        yield _exact(f"cvt.{rounding}.f16.f64", "h:l", "f64", "f16")
    for form in ("f16", "bf16"):
        for tail in ("rn", "rz", "rn.relu", "rz.relu"):
            yield _exact(f"cvt.{tail}.{form}.f32", "h:r", "f32", form)
            yield _exact(f"cvt.{tail}.{form}x2.f32", "r:rr", "f32", form)
        yield _exact(f"cvt.f32.{form}", "r:h", form, "f32")
    for tail in ("rna", "rn", "rz", "rn.relu", "rz.relu"):
        yield _exact(f"cvt.{tail}.tf32.f32", "r:r", "f32", "f32")
    yield _exact("cvt.f64.f32", "l:r", "f32", "f64")
    yield _exact("cvt.f64.f16", "l:h", "f16", "f64")
    yield _exact("cvt.sat.f32.f32", "r:r", "f32", "f32")
    yield _exact("cvt.ftz.f64.f32", "l:r", "f32", "f64")
    for rounding in ("rni", "rzi", "rmi", "rpi"):
        yield _exact(f"cvt.{rounding}.f32.f32", "r:r", "f32", "f32")
        yield _exact(f"cvt.{rounding}.ftz.f32.f32", "r:r", "f32", "f32")
        yield _exact(f"cvt.{rounding}.f64.f64", "l:l", "f64", "f64")
        yield _exact(f"cvt.{rounding}.f16.f16", "h:h", "f16", "f16")


def _bytes_of_floats() -> Iterator[ComparedInstruction]:
    """Pairs of 8-bit floats; a NaN has one code."""
    for form, relu in product(("e4m3x2", "e5m2x2"), ("", ".relu")):
        yield _exact(f"cvt.rn.satfinite{relu}.{form}.f32", "h:rr", "f32")
        yield _exact(f"cvt.rn.satfinite{relu}.{form}.f16x2", "h:r", "f16")
        yield _exact(f"cvt.rn{relu}.f16x2.{form}", "r:h", "int", "f16")


def _integers() -> Iterator[ComparedInstruction]:
    for letter, kind in (
        ("h", "u16"),
        ("h", "s16"),
        ("r", "u32"),
        ("r", "s32"),
        ("l", "u64"),
        ("l", "s64"),
    ):
        two, three = f"{letter}:{letter * 2}", f"{letter}:{letter * 3}"
        for how in ("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"):
            yield _exact(f"{how}.{kind}", two, "int")
        for how in ("mad.lo", "mad.hi"):
            yield _exact(f"{how}.{kind}", three, "int")
        yield _exact(f"shr.{kind}", f"{letter}:{letter}r", "int")
        yield _exact(f"sad.{kind}", three, "int")
        if kind[0] == "s":
            yield _exact(f"abs.{kind}", f"{letter}:{letter}", "int")
            yield _exact(f"neg.{kind}", f"{letter}:{letter}", "int")
        wider = {"h": "r", "r": "l"}.get(letter)
        if wider:
            yield _exact(f"mul.wide.{kind}", f"{wider}:{letter * 2}", "int")
            yield _exact(f"mad.wide.{kind}", f"{wider}:{letter * 2}{wider}", "int")
        for order in ("eq", "lt", "ge") if kind[0] == "s" else ("ne", "lo", "ls", "hi", "hs"):
            yield _predicate(f"setp.{order}.{kind}", f"r:{letter * 2}", "int")
    yield _exact("add.sat.s32", "r:rr", "int")
    yield _exact("sub.sat.s32", "r:rr", "int")
    for kind in ("u32", "s32"):
        yield _exact(f"mul24.lo.{kind}", "r:rr", "int")
        yield _exact(f"mad24.lo.{kind}", "r:rrr", "int")
    yield from _bits()


def _bits() -> Iterator[ComparedInstruction]:
    for letter, bits in (("h", 16), ("r", 32), ("l", 64)):
        for how in ("and", "or", "xor"):
            yield _exact(f"{how}.b{bits}", f"{letter}:{letter * 2}", "int")
        for how in ("not", "cnot"):
            yield _exact(f"{how}.b{bits}", f"{letter}:{letter}", "int")
        yield _exact(f"shl.b{bits}", f"{letter}:{letter}r", "int")
    for letter, bits in (("r", 32), ("l", 64)):
        yield _exact(f"popc.b{bits}", f"r:{letter}", "int")
        yield _exact(f"clz.b{bits}", f"r:{letter}", "int")
        yield _exact(f"brev.b{bits}", f"{letter}:{letter}", "int")
        yield _exact(f"bfi.b{bits}", f"{letter}:{letter * 2}rr", "int")
        for kind in (f"u{bits}", f"s{bits}"):
            yield _exact(f"bfe.{kind}", f"{letter}:{letter}rr", "int")
            yield _exact(f"bfind.{kind}", f"r:{letter}", "int")
            yield _exact(f"bfind.shiftamt.{kind}", f"r:{letter}", "int")
    yield from _bytes()


def _bytes() -> Iterator[ComparedInstruction]:
    """Funnel shifts, bytes and halves of words, tables, carries."""
    for way, how in product("lr", ("wrap", "clamp")):
        yield _exact(f"shf.{way}.{how}.b32", "r:rrr", "int")
    yield _exact("prmt.b32", "r:rrr", "int")
    for table in (0x96, 0xE8, 0xCA, 0x1B):
        text = f"lop3.b32 %0, %1, %2, %3, {table:#x};"
        yield _exact(f"lop3.b32 {table:#x}", "r:rrr", "int", text=text)
    for a, b in product(("u32", "s32"), ("u32", "s32")):
        yield _exact(f"dp4a.{a}.{b}", "r:rrr", "int")
        yield _exact(f"dp2a.lo.{a}.{b}", "r:rrr", "int")
        yield _exact(f"dp2a.hi.{a}.{b}", "r:rrr", "int")
    for how in ("clamp", "wrap"):
        yield _exact(f"bmsk.{how}.b32", "r:rr", "int")
        yield _exact(f"szext.{how}.u32", "r:rr", "int")
        yield _exact(f"szext.{how}.s32", "r:rr", "int")
    for how, kind in product(("min", "max"), ("u16x2", "s16x2")):
        yield _exact(f"{how}.{kind}", "r:rr", "int")
    yield _exact("add.u16x2", "r:rr", "int")
    carry = "{{ .reg .b32 lo; {0}.cc.u32 lo, %1, %2; {0}c.u32 %0, %2, %3; }}"
    for how in ("add", "sub"):
        yield _exact(f"{how}.cc, {how}c.u32", "r:rrr", "int", text=carry.format(how))


def _special() -> Iterator[ComparedInstruction]:
    """The approximate ones."""
    one = "1 ulp"
    bounds = {
        "ex2": "2 ulp",
        "lg2": "2^-22 absolute in (0.5, 2), relative elsewhere",
        "sin": "2^-20.5 absolute in [-2pi, 2pi], 2^-14.7 in [-100pi, 100pi]",
        "cos": "2^-20.5 absolute in [-2pi, 2pi], 2^-14.7 in [-100pi, 100pi]",
        "rcp": one,
        "rsqrt": "2^-22.9 relative",
        "sqrt": "2^-23 relative",
    }
    for name, bound in bounds.items():
        for tail in ("", ".ftz"):
            yield ComparedInstruction(f"{name}.approx{tail}.f32", "r:r", "f32", "f32", bound)
    yield ComparedInstruction("tanh.approx.f32", "r:r", "f32", "f32", "2^-11 relative")
    for tail in ("", ".ftz"):
        near = "2 ulp for |b| in [2^-126, 2^126]"
        yield ComparedInstruction(f"div.approx{tail}.f32", "r:rr", "f32", "f32", near)
        yield ComparedInstruction(f"div.full{tail}.f32", "r:rr", "f32", "f32", "2 ulp")
    high = "20 bits of fraction"
    yield ComparedInstruction("rcp.approx.ftz.f64", "l:l", "f64", "f64", high)
    yield ComparedInstruction("rsqrt.approx.ftz.f64", "l:l", "f64", "f64", high)
    yield ComparedInstruction("rsqrt.approx.f64", "l:l", "f64", "f64", "not stated")
    for form, bound in (("f16", "2^-10.987 absolute"), ("bf16", "2^-8 absolute")):
        yield ComparedInstruction(f"tanh.approx.{form}", "h:h", form, form, bound)
        yield ComparedInstruction(f"tanh.approx.{form}x2", "r:r", form, form, bound)
    for form, bound in (("f16", "2^-9.9 relative"), ("ftz.bf16", "2^-7 relative")):
        kind = form.removeprefix("ftz.")
        yield ComparedInstruction(f"ex2.approx.{form}", "h:h", kind, kind, bound)
        yield ComparedInstruction(f"ex2.approx.{form}x2", "r:r", kind, kind, bound)
