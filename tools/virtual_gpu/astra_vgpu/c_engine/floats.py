"""f32 and f64 arithmetic, and the approximate functions of the special function unit.

Approximations are computed more precisely than a GPU's, as in the NumPy engine.
"""

from __future__ import annotations

from astra_vgpu.c_engine.code import Code, elementwise, family

MODES = ("rn", "rz", "rm", "rp")
ENLARGING = {
    "mul": (24, 0),
    "fma": (24, 0, 24),
    "mad": (24, 0, 24),
    "div": (24, 0),
    "rcp": (-24,),
}
"""Powers of two by which operands grow where the result is to grow by 2^24."""


def ftz(template: str, flushes: bool) -> str:
    """The sources flushed, where .ftz is written."""
    if not flushes:
        return template
    for index in range(3):
        template = template.replace(f"{{{index}}}", f"ftz({{{index}}})")
    return template


def _finish(code: Code, template: str, *, scalar: bool = False) -> None:
    """With .ftz and .sat, where they are written."""
    if code.flag("ftz"):
        template = _flushed(code, template)
    if code.flag("sat"):
        template = f"sat32({template})"
    elementwise(code, template, "f32", scalar=scalar)


def _flushed(code: Code, template: str) -> str:
    larger = template
    powers = ENLARGING.get(code.instruction.family)
    if powers is None:
        return f"ftz({ftz(template, True)})"
    for index, power in enumerate(powers):
        larger = larger.replace(f"{{{index}}}", f"(ftz({{{index}}}) * 0x1p{power}f)")
    return f"ftz_tiny({ftz(template, True)}, {larger})"


def _rounded(code: Code, f32: str, f64: str) -> None:
    """An operation that exists in four rounding modes."""
    type_name, mode = code.type(), code.option(*MODES, default="rn").upper()
    if type_name == "f32":
        _finish(code, f32.replace("MODE", mode))
    elif mode == "RN":
        elementwise(code, f64, "f64")
    else:
        how = {"mad": "fma"}.get(code.instruction.family, code.instruction.family)
        sources = ", ".join(f"{{{index}}}" for index in range(len(code.operands) - 1))
        elementwise(code, f"{how}_directed({sources}, {mode})", "f64", scalar=True)


@family("add", "f32", "f64")
def add(code: Code) -> None:
    _rounded(code, "add32({0}, {1}, MODE)", "{0} + {1}")


@family("sub", "f32", "f64")
def sub(code: Code) -> None:
    _rounded(code, "add32({0}, -{1}, MODE)", "{0} - {1}")


@family("mul", "f32", "f64")
def mul(code: Code) -> None:
    _rounded(code, "mul32({0}, {1}, MODE)", "{0} * {1}")


@family("fma", "f32", "f64")
@family("mad", "f32", "f64")
def fma(code: Code) -> None:
    _rounded(code, "fma32({0}, {1}, {2}, MODE)", "__builtin_fma({0}, {1}, {2})")


@family("div", "f32", "f64")
def div(code: Code) -> None:
    style = code.optional("approx", "full")
    if not style:
        _rounded(code, "div32({0}, {1}, MODE)", "{0} / {1}")
        return
    code.type()
    _finish(code, "div_approx({0}, {1})" if style == "approx" else "{0} / {1}")


@family("rcp", "f32", "f64")
def rcp(code: Code) -> None:
    _unary(code, "1 / {0}", "div32(1, {0}, MODE)")


@family("sqrt", "f32", "f64")
def sqrt(code: Code) -> None:
    root = "__builtin_sqrtf({0})" if code.kind == "f32" else "__builtin_sqrt({0})"
    _unary(code, root, "sqrt32({0}, MODE)")


def _unary(code: Code, near: str, exact: str) -> None:
    if not code.optional("approx"):
        _rounded(code, exact, near)
    elif code.type() == "f64":
        elementwise(code, _by_high_words(near) if code.flag("ftz") else near, "f64")
    else:
        _finish(code, near)


def _by_high_words(near: str) -> str:
    return f"high_word({near.replace('{0}', 'high_word({0})')})"


@family("rsqrt", "f32", "f64")
def rsqrt(code: Code) -> None:
    code.option("approx")
    if code.type() == "f64":
        root = "1 / __builtin_sqrt({0})"
        elementwise(code, _by_high_words(root) if code.flag("ftz") else root, "f64")
    else:
        _finish(code, "rsqrt32({0})")


_SPECIAL = {
    "ex2": "ex2({0})",
    "lg2": "lg2({0})",
    "sin": "sin_approx({0})",
    "cos": "cos_approx({0})",
    "tanh": "tanh_approx({0})",
}


def _special_function(code: Code) -> None:
    code.option("approx")
    code.type()
    name = code.instruction.family
    _finish(code, _SPECIAL[name], scalar=name != "ex2")


for _name in _SPECIAL:
    family(_name, "f32")(_special_function)


@family("neg", "f32", "f64")
@family("abs", "f32", "f64")
def sign_only(code: Code) -> None:
    type_name = code.type()
    flushed = ftz("{0}", code.flag("ftz"))
    builtin = "__builtin_fabsf" if type_name == "f32" else "__builtin_fabs"
    negates = code.instruction.family == "neg"
    elementwise(code, f"-{flushed}" if negates else f"{builtin}({flushed})", type_name)


@family("copysign", "f32", "f64")
def copysign(code: Code) -> None:
    type_name = code.type()
    builtin = "__builtin_copysignf" if type_name == "f32" else "__builtin_copysign"
    elementwise(code, f"{builtin}({{1}}, {{0}})", type_name)


@family("min", "f32", "f64")
@family("max", "f32", "f64")
def extreme(code: Code) -> None:
    type_name = code.type()
    if len(code.operands) != 3:
        raise code.refuse("three sources on the C engine")
    keep = int(code.flag("NaN"))
    if type_name == "f64" and code.flag("xorsign"):
        raise code.refuse(".xorsign of f64")
    name = f"{code.instruction.family}{type_name[1:]}"
    template = of_magnitudes(code, f"{name}({{0}}, {{1}}, {keep})")
    elementwise(code, ftz(template, code.flag("ftz")), type_name)


def of_magnitudes(code: Code, template: str) -> str:
    """.xorsign.abs: of two float32, the extreme of the magnitudes with the sign of a product."""
    if not code.flag("xorsign"):
        return template
    code.option("abs")
    for source in ("{0}", "{1}"):
        template = template.replace(source, f"__builtin_fabsf({source})")
    return f"product_sign({template}, {{0}}, {{1}})"


_TESTS = {
    "finite": "{0} - {0} == 0",
    "infinite": "{0} - {0} != 0 && {0} == {0}",
    "number": "{0} == {0}",
    "notanumber": "{0} != {0}",
    "normal": "{0} - {0} == 0 && (ABS({0}) >= TINY || {0} == 0)",
    "subnormal": "{0} != 0 && ABS({0}) < TINY",
}


@family("testp", "f32", "f64")
def testp(code: Code) -> None:
    test = _TESTS[code.option(*_TESTS)]
    type_name = code.type()
    size, tiny = (
        ("__builtin_fabsf", "0x1p-126f") if type_name == "f32" else ("__builtin_fabs", "0x1p-1022")
    )
    elementwise(code, test.replace("ABS", size).replace("TINY", tiny), type_name, "pred")
