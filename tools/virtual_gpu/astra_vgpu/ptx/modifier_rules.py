"""Combinations of modifiers and types that ptxas 13.0 rejects.

The engines know which modifiers an instruction may have at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from astra_vgpu.ptx.modifiers import is_type
from astra_vgpu.ptx.signatures import wants_type
from astra_vgpu.ptx.syntax import Instruction, type_bits

_ROUNDINGS = frozenset("rn rz rm rp rna".split())
_WHOLE_ROUNDINGS = frozenset("rni rzi rmi rpi".split())
_SCOPES = frozenset("cta cluster gpu sys".split())
_ORDERS = frozenset("relaxed acquire release acq_rel volatile".split())
_CACHED = frozenset("ca cg cs lu cv wb wt".split())
_NO_ORDER = frozenset("param const local".split())
_NO_HINTS = frozenset("shared param const local".split())
_FLOATS = ("f16", "f32", "f64")
_RELU = frozenset("f16 f16x2 bf16 bf16x2 tf32".split())
_SIGNED = frozenset("lt le gt ge".split())
_UNSIGNED = frozenset("lo ls hi hs".split())
_FLOAT_ONLY = frozenset("equ neu ltu leu gtu geu num nan".split())
_ATOMIC_TYPES = {
    **dict.fromkeys("and or xor exch cas".split(), frozenset("b16 b32 b64 b128".split())),
    **dict.fromkeys("inc dec".split(), frozenset({"u32"})),
    "add": frozenset("u32 s32 u64 f16 f16x2 bf16 bf16x2 f32 f64".split()),
    **dict.fromkeys("min max".split(), frozenset("u32 s32 u64 s64 f16 f16x2 bf16 bf16x2".split())),
}
_REDUCED_TYPES = {
    **dict.fromkeys("add min max".split(), frozenset({"u32", "s32"})),
    **dict.fromkeys("and or xor".split(), frozenset({"b32"})),
}
_NO_BITS = frozenset("add addc sub subc mul mad div rem sad min max neg abs mul24 mad24".split())
_BITS_ONLY = frozenset({"shl"})
_NO_ROUNDING = frozenset("min max tanh ex2".split())
_SAT = frozenset("add sub mul fma mad cvt".split())
_DOUBLE_FTZ = frozenset("rcp rsqrt cvt".split())
_ROUNDED = {
    "fma": _ROUNDINGS,
    "div": _ROUNDINGS | {"approx", "full"},
    "rcp": _ROUNDINGS | {"approx"},
    "sqrt": _ROUNDINGS | {"approx"},
}
Rule = Callable[[Instruction, Sequence[str]], str]


def misuse(instruction: Instruction) -> str:
    """What does not go together in the opcode; empty where nothing is wrong."""
    types = [m for m in instruction.modifiers if is_type(m)]
    if not types and wants_type(instruction.family):
        return "the form without a type"
    rule = _RULES.get(instruction.family)
    return (rule(instruction, types) if rule else "") or _arithmetic(instruction, types)


def _arithmetic(instruction: Instruction, types: Sequence[str]) -> str:
    family, last = instruction.family, types[-1] if types else ""
    bits = last[:1] == "b" and last[:2] != "bf"
    if (bits and family in _NO_BITS) or (not bits and family in _BITS_ONLY):
        return f"type .{last} here"
    if "wide" in instruction.modifiers and last.endswith("64"):
        return f"type .{last} here"
    return _of_floats(instruction, last) if "f" in last else ""


def _of_floats(instruction: Instruction, kind: str) -> str:
    family, modifiers = instruction.family, set(instruction.modifiers)
    if family in _ROUNDED and not modifiers & _ROUNDED[family]:
        return "the form without a rounding"
    if family in _NO_ROUNDING and modifiers & _ROUNDINGS:
        return "a rounding here"
    if "sat" in modifiers and (family not in _SAT or "relu" in modifiers):
        return "modifier .sat here"
    if "ftz" in modifiers and (family == "tanh" or not _may_flush(family, kind)):
        return "modifier .ftz here"
    if "sat" in modifiers and kind.startswith("bf16") and family != "cvt":
        return "modifier .sat on this type"
    without = instruction.opcode in ("rcp.approx.f64", "sqrt.approx.f64")
    if without or (family == "ex2" and kind.startswith("bf16") and "ftz" not in modifiers):
        return "this form"
    return f"type .{kind} here" if family in ("mov", "selp") and "16" in kind else ""


def _may_flush(family: str, kind: str) -> bool:
    if kind == "f64":
        return family in _DOUBLE_FTZ
    if kind.startswith("bf16"):
        return family in ("ex2", "cvt")
    return family != "ex2" or not kind.startswith("f16")


def _converted(instruction: Instruction, types: Sequence[str]) -> str:
    modifiers = instruction.modifiers
    if len(types) != 2 or any(m.startswith(("e4m3", "e5m2", "ue8m0")) for m in modifiers):
        return ""
    target, source = types
    roundings = [m for m in modifiers if m in _ROUNDINGS | _WHOLE_ROUNDINGS]
    if len(roundings) > 1:
        return "more than one rounding"
    if wrong := _wrong_rounding(roundings, target, source) or _wrong_half(modifiers, types):
        return wrong
    if "relu" in modifiers and (source != "f32" or target not in _RELU or "sat" in modifiers):
        return "modifier .relu here"
    if "ftz" in modifiers and not _flushes(target, source):
        return "modifier .ftz here"
    narrows = target in _FLOATS or source in _FLOATS or _loses(target, source)
    return "modifier .sat here" if "sat" in modifiers and not narrows else ""


def _wrong_rounding(roundings: Sequence[str], target: str, source: str) -> str:
    whole = bool(roundings) and roundings[0] in _WHOLE_ROUNDINGS
    plain = bool(roundings) and not whole
    if target in _FLOATS and source in _FLOATS:
        shrinks = type_bits(target) < type_bits(source)
        if shrinks:
            return "" if plain else "this without a rounding"
        same = target == source
        return "a rounding here" if plain or (whole and not same) else ""
    if source in _FLOATS and target[0] in "us":
        return "" if whole else "this without a rounding to an integer"
    if target in _FLOATS and source[0] in "us":
        return "" if plain else "this without a rounding"
    if target[0] in "us" and source[0] in "us":
        return "a rounding here" if roundings else ""
    return ""


def _wrong_half(modifiers: Sequence[str], types: Sequence[str]) -> str:
    """bf16, pairs and .relu know fewer roundings."""
    target, source = types
    if "bf16" not in types and not target.endswith("x2") and "relu" not in modifiers:
        return ""
    if source == "f32" and not {"rn", "rz"} & set(modifiers) and target != "tf32":
        return "this rounding"
    if target == "tf32" and {"rna", "relu"} <= set(modifiers):
        return "modifier .relu here"
    if source[0] not in "us" and target[0] not in "us" and set(modifiers) & _WHOLE_ROUNDINGS:
        return "" if source == target else "a rounding to an integer"
    if source == "bf16" and target == "f32" and set(modifiers) & (_ROUNDINGS | {"sat"}):
        return "a rounding or .sat here"
    if target == "bf16" and source[0] in "us" and not set(modifiers) & _ROUNDINGS:
        return "this without a rounding"
    wrong = "ftz" in modifiers or ("sat" in modifiers and target == "bf16")
    return "modifier .ftz or .sat here" if wrong and source == "f32" else ""


def _flushes(target: str, source: str) -> bool:
    """Is there a float32 that may be subnormal?"""
    if source == "f32":
        return not target.startswith("bf16") and target != "tf32"
    return target == "f32" and source != "bf16"


def _loses(target: str, source: str) -> bool:
    """Integers: may a value of the source lie outside the target's range?"""
    if "f" in target or "f" in source:
        return True
    have, want = type_bits(source), type_bits(target)
    if source[0] == target[0]:
        return have > want
    return source[0] == "s" or have >= want


def _compared(instruction: Instruction, types: Sequence[str]) -> str:
    how = instruction.modifiers[0] if instruction.modifiers else ""
    kind = types[-1] if types else ""
    floats = "f" in kind
    wrong = (
        (how in _UNSIGNED and kind[:1] != "u")
        or (how in _SIGNED and kind[:1] == "b" and not floats)
        or (how in _FLOAT_ONLY and not floats)
    )
    if not wrong and instruction.family == "set" and len(types) == 2:
        wrong = _wrong_set(*types)
    return f"comparison .{how} of .{kind}" if wrong else ""


def _wrong_set(target: str, kind: str) -> bool:
    if target in ("u32", "s32"):
        return False
    if target.endswith("x2") or kind.endswith("x2"):
        return target != kind
    if target in ("u16", "s16"):
        return kind not in ("f16", "bf16")
    halves = {"f16": ("f16",), "bf16": ("f16", "bf16")}.get(target, ())
    wrong_half = kind in ("f16", "bf16") and kind not in halves
    return wrong_half or target not in ("f16", "bf16", "f32")


def _accessed(instruction: Instruction, _: Sequence[str]) -> str:
    written = list(instruction.modifiers)
    modifiers = {m.partition("::")[0] for m in written}
    orders, scopes = _ORDERS & modifiers, _SCOPES & modifiers
    hints = {m for m in written if m.startswith(("L1::", "L2::cache"))}
    if len(orders) > 1 or len(scopes) > 1 or len(set(written)) < len(written):
        return "duplicate modifiers"
    if bool(scopes) != bool(orders - {"volatile"}):
        return "an order without a scope, or a scope without one"
    if "nc" in modifiers and (instruction.family == "st" or "global" not in modifiers or orders):
        return "modifier .nc here"
    if orders and (modifiers & (_NO_ORDER | _CACHED) or (hints and "volatile" in orders)):
        return f"modifier .{min(orders)} here"
    if hints and (modifiers & _NO_HINTS or (modifiers & _CACHED and "L1" in modifiers)):
        return f"modifier .{min(hints)} here"
    return "more than one cache operation" if len(_CACHED & modifiers) > 1 else ""


def _atomic(instruction: Instruction, types: Sequence[str]) -> str:
    modifiers = instruction.modifiers
    how = next((m for m in modifiers if m in _ATOMIC_TYPES), "")
    if len(_SCOPES & set(modifiers)) > 1 or len(_ORDERS & set(modifiers)) > 1:
        return "duplicate modifiers"
    if how and types and types[-1] not in _ATOMIC_TYPES[how]:
        return f"operation .{how} on .{types[-1]}"
    if "noftz" in modifiers and types and "16" not in types[-1]:
        return "modifier .noftz here"
    if any(m in ("v2", "v4", "v8") for m in modifiers) and (
        "shared" in modifiers or not types or "f" not in types[-1]
    ):
        return "a vector here"
    return ""


def _reduced(instruction: Instruction, types: Sequence[str]) -> str:
    how = next((m for m in instruction.modifiers if m in _REDUCED_TYPES), "")
    wrong = how and types and types[-1] not in _REDUCED_TYPES[how]
    return f"operation .{how} on .{types[-1]}" if wrong else ""


def _mbarrier(instruction: Instruction, _: Sequence[str]) -> str:
    modifiers = set(instruction.modifiers)
    orders, scopes = _ORDERS & modifiers, _SCOPES & modifiers
    if bool(orders) != bool(scopes):
        return "an order without a scope, or a scope without one"
    if "noComplete" in modifiers and (orders or "expect_tx" in modifiers):
        return "modifier .noComplete here"
    return ""


def _matrix(instruction: Instruction, _: Sequence[str]) -> str:
    return "state space .global here" if "global" in instruction.modifiers else ""


def _policy(instruction: Instruction, _: Sequence[str]) -> str:
    hints = [m for m in instruction.modifiers if m.startswith(("L1", "L2"))]
    right = hints and hints[0].startswith("L2::evict") and "global" not in instruction.modifiers
    return "" if right and all(h.startswith("L2") for h in hints) else "this policy"


def _fenced(instruction: Instruction, _: Sequence[str]) -> str:
    orders = {"sc", "acq_rel", "acquire", "release"} & set(instruction.modifiers)
    return "more than one order" if len(orders) > 1 else ""


def _tiled(instruction: Instruction, types: Sequence[str]) -> str:
    """wmma.load.a, .b, .c, wmma.store.d."""
    modifiers = instruction.modifiers
    part = modifiers[1] if len(modifiers) > 1 else ""
    wrong = {"load": part not in ("a", "b", "c"), "store": part != "d"}
    if "mma" in modifiers and len(types) == 4 and types[1] != types[2]:
        return "unlike A and B"
    return "this fragment" if wrong.get(modifiers[0] if modifiers else "", False) else ""


def _met(instruction: Instruction, _: Sequence[str]) -> str:
    wrong = instruction.family == "bar" and "aligned" in instruction.modifiers
    return "modifier .aligned here" if wrong else ""


def _copied(instruction: Instruction, _: Sequence[str]) -> str:
    if "commit_group" in instruction.modifiers and instruction.operands:
        return "this number of operands"
    hints = any(m.startswith("L1::") for m in instruction.modifiers)
    return "a hint about L1 here" if hints else ""


def _ordered(instruction: Instruction, _: Sequence[str]) -> str:
    wrong = set(instruction.modifiers) - {"cta", "gl", "sys"}
    return f"modifier .{min(wrong)} here" if wrong else ""


def _multiplied(instruction: Instruction, _: Sequence[str]) -> str:
    wrong = "cc" in instruction.modifiers and "wide" in instruction.modifiers
    return "modifier .cc here" if wrong else ""


def _chosen(instruction: Instruction, types: Sequence[str]) -> str:
    """slct: .ftz is about the number that decides."""
    wrong = "ftz" in instruction.modifiers and types and types[-1] != "f32"
    return "modifier .ftz here" if wrong else ""


_RULES: dict[str, Rule] = {
    "cvt": _converted, "setp": _compared, "set": _compared, "ld": _accessed, "st": _accessed,
    "atom": _atomic, "red": _atomic, "redux": _reduced, "mbarrier": _mbarrier,
    "ldmatrix": _matrix, "stmatrix": _matrix, "createpolicy": _policy, "fence": _fenced,
    "wmma": _tiled, "bar": _met, "cp": _copied, "membar": _ordered, "mad": _multiplied,
    "slct": _chosen,
}  # fmt: skip
