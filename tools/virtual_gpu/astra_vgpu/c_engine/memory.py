"""ld, st, prefetch, atom, red, malloc, free and printf.

Addresses are arrays over lanes; an item is the raw bytes of one lane's access.
"""

from __future__ import annotations

from dataclasses import dataclass

from astra_vgpu.c_engine.code import (
    Code,
    c_type,
    constant,
    family,
    raw_type,
    typed,
)
from astra_vgpu.lowering.float_stores import INFINITIES
from astra_vgpu.lowering.ordered_accesses import is_loose, is_ordered
from astra_vgpu.lowering.regions import adds_one
from astra_vgpu.lowering.store_merging import ALONE
from astra_vgpu.numpy_engine.address_spaces import reads_constants
from astra_vgpu.ptx.syntax import (
    Address,
    Group,
    Operand,
    Register,
    Symbol,
    Vector,
    type_bits,
)

_ORDERS = ("volatile", "relaxed", "acquire", "release")
_SCOPES = ("cta", "cluster", "gpu", "sys")
MAX_ARRAYS = 4
"""Most arrays in shared memory that one instruction is checked against (simt.h); if it may access
more, none is checked."""
_CACHE = ("ca", "cg", "cs", "lu", "cv", "wb", "wt")
_SPACES = {"": "GENERIC", "global": "GLOBAL", "const": "CONSTANT"}


def space_of(code: Code) -> str:
    """The space among the modifiers; "" for a generic address."""
    for name in ("global", "const", "local"):
        if code.flag(name):
            return name
    if code.flag("shared") or code.flag("shared::cta"):
        return "shared"
    if code.flag("param") or code.flag("param::entry") or code.flag("param::func"):
        return "param"
    return ""


def resolved_space(code: Code, space: str, operand: Operand) -> str:
    """A slot of a call, or a variable named in a generic access, has its own space."""
    if isinstance(operand, Address) and isinstance(operand.base, Symbol):
        place = code.unit.places.get(operand.base.name)
        if place is not None and space in ("", "param"):
            return "local" if place.space == "slot" else place.space
    return space


def address(code: Code, operand: Operand) -> str:
    """The address of each lane as uint64; 32-bit addresses wrap in 32 bits."""
    if not isinstance(operand, Address):
        raise code.refuse("this form of address on the C engine")
    base, offset = operand.base, operand.offset
    if isinstance(base, Register) and base.bits == 32:
        return f"(uint32_t)({code.reader(base, 'u32')} + {constant(offset, 32)})"
    if isinstance(base, Symbol):
        return code.symbol(Symbol(base.name, offset), 64)
    return f"{code.reader(base, 'u64')} + {constant(offset, 64)}"


@dataclass
class _Form:
    """What ld and st have in common."""

    space: str
    ordered: bool
    lanes: int
    type: str

    @property
    def size(self) -> int:
        return self.lanes * type_bits(self.type) // 8


def _form(code: Code, operand: Operand) -> _Form:
    space = resolved_space(code, space_of(code), operand)
    code.optional(*_ORDERS)
    ordered = is_ordered(code.instruction, code.unit.looks)
    code.ignore("weak", "nc", *_SCOPES, *_CACHE)
    code.ignore_hints()
    lanes = {"": 1, "v2": 2, "v4": 4}[code.optional("v2", "v4")]
    form = _Form(space, ordered, lanes, code.type())
    if ordered and space in ("", "global"):
        code.unit.serial = True
    return form


def site_of(code: Code, size: int, *, writes: bool, ordered: int, blind: bool = False) -> str:
    """Adds a site for an access of `size` bytes a lane; returns a pointer to it as C text.

    blind: an atomic operation that does not look at what it replaces.
    """
    kept = id(code.instruction) in code.unit.in_registers or code.instruction.family == "vprintf"
    number = len(code.unit.sites)
    releases = bool({"release", "acq_rel"}.intersection(code.instruction.modifiers))
    cached = "nc" in code.instruction.modifiers
    levels = code.unit.levels.get(id(code.instruction), ())
    rounds = "".join(f", {min(level, 64)}" for level in levels)
    run = code.unit.runs.get(id(code.instruction), ALONE)
    float_type = code.unit.float_stores.get(id(code.instruction), "") if writes else ""
    floats = "0, 0"
    if float_type:
        floats = f"{type_bits(float_type) // 8}, {INFINITIES[float_type]:#x}u"
    arrays = code.unit.reached.get(id(code.instruction), ())
    spans = [f"{{{array.start}, {array.end or 'UINT32_MAX'}}}" for array in arrays]
    if len(spans) > MAX_ARRAYS:
        spans = []
    loose = code.instruction.family in ("ld", "st") and is_loose(code.instruction, code.unit.looks)
    code.unit.sites.append(
        f"{{{code.place}, {number}, {size}, {int(writes)}, {int(ordered)}, {int(blind)}, "
        f"{int(releases)}, {int(kept)}, {int(cached)}, {len(levels)}, {{0{rounds}}}, {len(run)}, "
        f"{{{', '.join(map(str, run or ALONE))}}}, {floats}, {len(spans)}, "
        f"{{{', '.join(spans or ['{0}'])}}}, {int(id(code.instruction) in code.unit.sums)}, "
        f"{int(loose)}, {int(id(code.instruction) in code.unit.deciding)}, "
        f"{int(id(code.instruction) in code.unit.data_reads)}}}"
    )
    return f"&sites[{number}]"


FLOAT_ATOMIC, COUNT_ATOMIC = 2, 3
"""Values of a site's `ordered` (machine.h): an atomic on floats, an atomic addition of one."""


def c_space(space: str) -> str:
    return _SPACES.get(space, space.upper())


def items_of(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _slots(form: _Form, data: int) -> list[str]:
    """Where each element of a lane lies in the raw bytes."""
    element = raw_type(type_bits(form.type))
    return [f"(({element} *)X{data})[{form.lanes} * l + {k}]" for k in range(form.lanes)]


@family("ld")
def load(code: Code) -> None:
    target, source = code.operand(0), code.operand(1)
    form = _form(code, source)
    if _is_plain_parameter(code, form, source):
        _load_parameter(code, form, target, source)
        return
    where = code.array(address(code, source), "uint64_t")
    active = code.active()
    data = room(code, form.size)
    site = site_of(code, form.size, writes=False, ordered=form.ordered)
    if reads_constants(form.space, source):
        code.warp(f"count_constants(w, {site}, {where}, {active});")
    code.warp(f"load(w, {site}, {c_space(form.space)}, {where}, {active}, X{data});")
    for item, slot in zip(items_of(target), _slots(form, data), strict=True):
        code.put(item, _extending(form.type), typed(slot, _extending(form.type)))


def _extending(type_name: str) -> str:
    """Floats are loaded as they are; only signed integers extend by a sign."""
    return type_name if type_name[0] == "s" else f"b{type_bits(type_name)}"


def room(code: Code, size: int) -> int:
    """Raw bytes of an access: `size` of each lane."""
    return code.results(
        {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t"}.get(size, "unsigned __int128")
    )


def _is_plain_parameter(code: Code, form: _Form, source: Operand) -> bool:
    """A kernel parameter by name, inside its bounds: the same for all lanes."""
    if form.space != "param" or not isinstance(source, Address):
        return False
    base = source.base
    if not isinstance(base, Symbol):
        return False
    at = code.unit.places[base.name].offset + source.offset
    return 0 <= at and at + form.size <= code.unit.param_bytes


def _load_parameter(code: Code, form: _Form, target: Operand, source: Operand) -> None:
    assert isinstance(source, Address) and isinstance(source.base, Symbol)
    at = code.unit.places[source.base.name].offset + source.offset
    bits = type_bits(form.type)
    for place, item in enumerate(items_of(target)):
        value = f"PARAM_READ({raw_type(bits)}, {at + place * bits // 8})"
        code.put(item, _extending(form.type), typed(value, _extending(form.type)))


@family("st")
def store(code: Code) -> None:
    target, source = code.operand(0), code.operand(1)
    form = _form(code, target)
    where = code.array(address(code, target), "uint64_t")
    data = room(code, form.size)
    for item, slot in zip(items_of(source), _slots(form, data), strict=True):
        code.lanes(f"{slot} = {code.reader(item, f'b{type_bits(form.type)}')};")
    active = code.active()
    site = site_of(code, form.size, writes=True, ordered=form.ordered)
    code.warp(f"store(w, {site}, {c_space(form.space)}, {where}, {active}, X{data});")


@family("prefetch")
@family("prefetchu")
@family("applypriority")
def prefetch(code: Code) -> None:
    code.ignore("global", "local", "L1", "L2")
    code.ignore_hints()


@family("createpolicy")
def createpolicy(code: Code) -> None:
    """An eviction policy, for the hints of loads and stores: it concerns speed only."""
    code.option("fractional", "range", "cvt")
    code.ignore("global", "L2")
    code.ignore_hints()
    code.type()
    code.write(0, "b64", "0")


@family("malloc")
@family("free")
def allocation(code: Code) -> None:
    """Allocates or frees on the one heap of all blocks, which run one after the other."""
    code.unit.serial = True
    groups = (code.operand(0), code.operand(1))
    slots = [
        str(code.unit.places[item.name].offset)
        for group in groups
        for item in (group.items if isinstance(group, Group) else ())
        if isinstance(item, Symbol)
    ]
    if code.instruction.family == "malloc":
        code.warp(f"device_malloc(w, {code.active()}, {', '.join(slots)});")
    else:
        code.warp(f"device_free(w, {code.place}, {code.active()}, {', '.join(slots)});")


@family("vprintf")
def printf(code: Code) -> None:
    """Recorded if output is wanted; the call returns 0 as for an empty format."""
    results, given = code.operand(0), code.operand(1)
    slots = ", ".join(
        str(code.unit.places[item.name].offset)
        for item in (given.items if isinstance(given, Group) else ())
        if isinstance(item, Symbol)
    )
    code.warp(f"note_print(w, m, (const uint32_t[]){{{slots}}});")
    for item in results.items if isinstance(results, Group) else ():
        if isinstance(item, Symbol):
            where = code.array(code.symbol(item, 64), "uint64_t")
            nothing = code.array("0u")
            site = site_of(code, 4, writes=True, ordered=True)
            code.warp(f"store(w, {site}, LOCAL, {where}, m, {nothing});")


_UPDATES = {
    "add": "{old} + {b}",
    "min": "({old} < {b} ? {old} : {b})",
    "max": "({old} > {b} ? {old} : {b})",
    "and": "{old} & {b}",
    "or": "{old} | {b}",
    "xor": "{old} ^ {b}",
    "exch": "{b}",
    "cas": "({old} == {b} ? {c} : {old})",
    "inc": "({old} >= {b} ? 0 : {old} + 1)",
    "dec": "({old} == 0 || {old} > {b} ? {b} : {old} - 1)",
}


@family("atom")
@family("red")
def atomic(code: Code) -> None:
    """Lanes take their turn in the order of their numbers; blocks one after the other."""
    returns = code.instruction.family == "atom"
    first = 1 if returns else 0
    target = code.operand(first)
    space = resolved_space(code, space_of(code), target)
    if space == "global" and "cta" in code.instruction.modifiers:
        raise code.refuse("an atomic operation on global memory whose scope is the block")
    code.ignore("relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys")
    how = code.option(*_UPDATES)
    code.flag("noftz")
    type_name = code.type()
    if space in ("", "global"):
        code.unit.serial = True
    bits = type_bits(type_name)
    where = code.array(address(code, target), "uint64_t")
    raw = raw_type(bits)
    sources = [
        code.array(code.reader(operand, f"b{bits}"), raw) for operand in code.operands[first + 1 :]
    ]
    active = code.active()
    places, old = code.results("uint64_t"), code.results(raw)
    kind = COUNT_ATOMIC if adds_one(code.instruction) else FLOAT_ATOMIC if "f" in type_name else 1
    site = site_of(code, bits // 8, writes=True, ordered=kind, blind=how == "exch")
    among = f"w, {site}, {c_space(space)}, {where}, who, (uint8_t **)X{places}"
    done = f"atomic_done({among}, X{old});" if space in ("", "shared") else ""
    code.warp(
        f"{{ const uint32_t who = {active}; atomic_places({among}); "
        f"for (uint32_t l = 0; l < LANES; l++) if (who >> l & 1) {{ "
        f"{raw} *place = ({raw} *)X{places}[l]; const {raw} found = *place; X{old}[l] = found; "
        f"*place = {_update(how, type_name, sources, c_space(space), where)}; }} {done} }}"
    )
    if returns:
        code.write(0, f"b{bits}", f"x{old}")


def _update(how: str, type_name: str, sources: list[str], space: str, where: str) -> str:
    """The new raw value, out of `found` and the sources; `where`: the lanes' addresses."""
    halves = "f16" in type_name
    if halves:
        half = type_name.removesuffix("x2")
        add = f"narrow_{half}(widen_{half}({{0}}) + widen_{half}({{1}}))"
        if type_name.endswith("x2"):
            low = add.format("(uint16_t)found", f"(uint16_t){sources[0]}[l]")
            high = add.format("(uint16_t)(found >> 16)", f"(uint16_t)({sources[0]}[l] >> 16)")
            return f"(uint32_t){low} | (uint32_t){high} << 16"
        return add.format("found", f"{sources[0]}[l]")
    b, c = (typed(f"{source}[l]", type_name) for source in (sources[0], sources[-1]))
    old = typed("found", type_name)
    value = _UPDATES[how].format(old=old, b=b, c=c)
    if (how, type_name) == ("add", "f32") and space != "SHARED":
        added = f"l2_add({old}, {b})"
        value = added if space == "GLOBAL" else f"({where}[l] >> 56 ? {value} : {added})"
    if type_name in ("f32", "f64"):
        return f"bits{type_name[1:]}({value})"
    return f"({c_type(f'u{type_bits(type_name)}')})({value})"
