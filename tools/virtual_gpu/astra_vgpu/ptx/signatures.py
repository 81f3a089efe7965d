"""Operand signatures: what each operand of an instruction must be, as ptxas 13.0 requires.

A type requires a value of that type; before it stands
    ~   registers with more bits are accepted
    =   registers declared with exactly this type, no others and no constants
    {   a vector of such values
and in its place
    @space   an address in that space; @ alone: in the space that the modifiers name
    #        an integer constant, not a register
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from astra_vgpu.ptx.modifiers import is_type
from astra_vgpu.ptx.syntax import Instruction, type_bits

Wanted = Callable[[Sequence[str], Sequence[str], int], list[str]]
"""(modifiers, types among them, operands) -> the form of each operand; empty: not known."""

_WIDEST = 32
"""Bits of what .wide doubles."""
_VECTORS = frozenset({"v2", "v4", "v8"})
_PACKED = frozenset({"u16x2", "s16x2"})


def forms(instruction: Instruction) -> list[str]:
    """The form of each operand; empty where the instruction is not known here."""
    types = [m for m in instruction.modifiers if is_type(m)]
    wanted = _WANTED.get(instruction.family)
    if wanted is None or not (types or instruction.family in _UNTYPED):
        return []
    return wanted(instruction.modifiers, types, len(instruction.operands))


def wants_type(family: str) -> bool:
    """Can the family not do without a type?"""
    return family in _WANTED and family not in _UNTYPED


def _value(type_name: str) -> str:
    return "=b32" if type_name in _PACKED else type_name


def _all(number: int) -> Wanted:
    return lambda _, types, __: [_value(types[-1])] * number


def _extreme(_: Sequence[str], types: Sequence[str], count: int) -> list[str]:
    return [_value(types[-1])] * (4 if count == 4 else 3)


def _product(number: int) -> Wanted:
    """mul and mad, .wide too."""

    def wanted(modifiers: Sequence[str], types: Sequence[str], _: int) -> list[str]:
        single = types[-1]
        if "wide" not in modifiers:
            return [_value(single)] * number
        if single[0] not in "us" or type_bits(single) > _WIDEST:
            return []
        double = f"{single[0]}{2 * type_bits(single)}"
        return [double, single, single, double][:number]

    return wanted


def _setp(_: Sequence[str], types: Sequence[str], count: int) -> list[str]:
    return ["pred", types[-1], types[-1], "pred"][: max(count, 3)]


def _set(_: Sequence[str], types: Sequence[str], count: int) -> list[str]:
    return [types[0], types[-1], types[-1], "pred"][: max(count, 3)] if len(types) == 2 else []


def _cvt(modifiers: Sequence[str], types: Sequence[str], _: int) -> list[str]:
    if len(types) != 2 or any(m.startswith(("e4m3", "e5m2", "ue8m0")) for m in modifiers):
        return []
    if types[0] == "tf32":
        return ["=b32", types[1]]
    if types[0].endswith("x2"):
        return [types[0], types[1], types[1]]
    if "bf16" in types:
        return list(types)
    cut = types == ["f32", "f64"] and "ftz" in modifiers
    return [types[0] if cut else f"~{types[0]}", f"~{types[1]}"]


def _shuffled(_: Sequence[str], __: Sequence[str], count: int) -> list[str]:
    return ["b32", "b32", "b32", "b32", "u32"] if count == 5 else []


def _voted(modifiers: Sequence[str], _: Sequence[str], __: int) -> list[str]:
    return ["b32" if "ballot" in modifiers else "pred", "pred", "u32"]


def _atomic(modifiers: Sequence[str], types: Sequence[str], count: int) -> list[str]:
    if count < 3:
        return []
    if _VECTORS & set(modifiers):
        return [f"{{{types[-1]}", "@", f"{{{types[-1]}"]
    return [types[-1], "@", *[types[-1]] * (count - 2)]


def _reduced(modifiers: Sequence[str], types: Sequence[str], count: int) -> list[str]:
    return _atomic(modifiers, types, count + 1)[1:]


def _loaded(modifiers: Sequence[str], types: Sequence[str], count: int) -> list[str]:
    if count != 2 or types[-1] == "b128":
        return []
    return [("{" if _VECTORS & set(modifiers) else "~") + types[-1], "@"]


def _stored(modifiers: Sequence[str], types: Sequence[str], count: int) -> list[str]:
    return _loaded(modifiers, types, count)[::-1]


def _barrier(modifiers: Sequence[str], _: Sequence[str], count: int) -> list[str]:
    if "red" in modifiers:
        number = ["u32"] * (count - 2)
        return ["u32" if "popc" in modifiers else "pred", *number, "pred"]
    return ["u32"] * count


def _copied(modifiers: Sequence[str], _: Sequence[str], count: int) -> list[str]:
    """cp.async and its bulk forms."""
    if "mbarrier" in modifiers:
        return ["@"]
    if "multicast::cluster" in modifiers:
        return []
    if "commit_group" in modifiers or "wait_all" in modifiers:
        return []
    if "wait_group" in modifiers:
        return ["#"]
    if "prefetch" in modifiers:
        return ["@global", "u32"]
    if "bulk" not in modifiers:
        return ["@shared", "@global", "#", "u32"][: max(count, 3)]
    if "bulk_group" in modifiers:
        return ["@global", "@shared", "u32"]
    return ["@shared", "@global", "u32", "@shared"]


def _matched(modifiers: Sequence[str], types: Sequence[str], _: int) -> list[str]:
    return ["u32", types[-1], "u32"]


def _mbarrier(modifiers: Sequence[str], _: Sequence[str], count: int) -> list[str]:
    operation = modifiers[0] if modifiers else ""
    if operation == "pending_count":
        return ["u32", "u64"]
    if operation == "init":
        return ["@shared", "u32"]
    if operation == "inval":
        return ["@shared"]
    if operation in ("expect_tx", "complete_tx"):
        return ["@shared", "u32"]
    if operation in ("arrive", "arrive_drop"):
        return ["u64", "@shared", "u32"][: max(count, 2)]
    phase = "u32" if "parity" in modifiers else "u64"
    return ["pred", "@shared", phase, "u32"][: max(count, 3)]


def _fragments(modifiers: Sequence[str], types: Sequence[str], _: int) -> list[str]:
    """mma.sync: D, A, B, C."""
    if len(types) != 4:
        return []
    return [_fragment(t, total=place in (0, 3)) for place, t in enumerate(types)]


def _fragment(type_name: str, *, total: bool) -> str:
    if type_name in ("f32", "f64"):
        return "{" + type_name
    if type_name == "f16":
        return "{f16x2"
    return "{=b32" if type_name in ("bf16", "tf32") and not total else "{u32"


def _tiles(modifiers: Sequence[str], types: Sequence[str], count: int) -> list[str]:
    """wmma.load, .store and .mma."""
    space = "@" if {"shared", "global"} & {m.partition("::")[0] for m in modifiers} else "@any"
    if "load" in modifiers:
        return [_fragment(types[-1], total="c" in modifiers), space, "u32"][: max(count, 2)]
    if "store" in modifiers:
        return [space, _fragment(types[-1], total=True), "u32"][: max(count, 2)]
    whole = types if len(types) == 4 else [types[0], "f16", "f16", types[-1]]
    return [_fragment(t, total=place in (0, 3)) for place, t in enumerate(whole)]


def _moved_matrix(*wanted: str) -> Wanted:
    """ldmatrix and stmatrix: b16 elements in registers of 32 bits."""
    return lambda _, __, ___: list(wanted)


def _fixed(*wanted: str) -> Wanted:
    """T stands for the last type."""
    return lambda _, types, __: [types[-1] if w == "T" else w for w in wanted]


_UNTYPED = frozenset("vote bar barrier cp mbarrier prefetch prefetchu pmevent".split())
_WANTED: dict[str, Wanted] = {
    **dict.fromkeys("not cnot neg abs rcp sqrt rsqrt ex2 lg2 sin cos tanh brev".split(), _all(2)),
    **dict.fromkeys("and or xor div rem mul24 addc subc copysign add sub".split(), _all(3)),
    **dict.fromkeys("fma sad mad24 madc".split(), _all(4)),
    **dict.fromkeys("min max".split(), _extreme),
    "mul": _product(3), "mad": _product(4),
    **dict.fromkeys("shl shr".split(), _fixed("T", "T", "u32")),
    **dict.fromkeys("popc clz bfind".split(), _fixed("u32", "T")),
    **dict.fromkeys("dp4a dp2a".split(), _fixed("u32", "u32", "u32", "u32")),
    "bfe": _fixed("T", "T", "u32", "u32"), "bfi": _fixed("T", "T", "T", "u32", "u32"),
    "shf": _fixed("b32", "b32", "b32", "u32"), "prmt": _fixed("b32", "b32", "b32", "b32"),
    "lop3": _fixed("b32", "b32", "b32", "b32", "u32"), "bmsk": _fixed("u32", "u32", "u32"),
    "szext": _fixed("T", "T", "u32"), "testp": _fixed("pred", "T"),
    "setp": _setp, "set": _set, "selp": _fixed("T", "T", "T", "pred"),
    "slct": lambda _, t, __: [t[0], t[0], t[0], t[1]] if len(t) == 2 else [],
    "cvt": _cvt, "mov": _all(2), "cvta": _all(2), "ld": _loaded, "st": _stored,
    "shfl": _shuffled, "vote": _voted, "match": _matched,
    "redux": lambda _, t, __: ["u32" if t[-1] == "b32" else t[-1]] * 2 + ["u32"],
    "bar": _barrier, "barrier": _barrier, "atom": _atomic, "red": _reduced,
    "activemask": _fixed("b32"), "nanosleep": _fixed("u32"), "createpolicy": _fixed("u64", "f32"),
    "prefetch": _fixed("@"), "prefetchu": _fixed("@"), "pmevent": _fixed("#"),
    "cp": _copied, "mbarrier": _mbarrier, "mma": _fragments, "wmma": _tiles,
    "ldmatrix": _moved_matrix("{b32", "@shared"), "stmatrix": _moved_matrix("@shared", "{b32"),
}  # fmt: skip
