"""Declarations of variables and parameters: what follows `.global`, `.param` and others."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from astra_vgpu.ptx.constants import constant, decimal, starts, whole
from astra_vgpu.ptx.cursor import Cursor
from astra_vgpu.ptx.syntax import Immediate, Relocation, Variable, type_bits

_ALIGNMENTS = frozenset(1 << power for power in range(13))
_LARGEST_BYTES = 1 << 32
"""Most bytes of a variable: no GPU's kernel has as much."""
_LARGEST_INITIAL_BYTES = 1 << 26
_SPACES = frozenset({".global", ".const", ".shared", ".local", ".param"})
_TYPES = frozenset("b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 f32 f64".split())
_INITIAL_SPACES = frozenset({"global", "const"})
_HOLD_ADDRESSES = frozenset({"u32", "u64"})


@dataclass(frozen=True)
class _Address:
    """Address of a symbol, as an initial value."""

    symbol: str
    addend: int


_Item = Immediate | _Address
_Tree = _Item | list["_Tree"]


def params(cursor: Cursor, *, unnamed: bool = False) -> list[Variable]:
    """(.param .u64 a, .param .align 8 .b8 b[24]): of a function. A prototype's may be `_`."""
    params: list[Variable] = []
    cursor.expect("(")
    if cursor.accept(")"):
        return params
    while not params or cursor.accept(","):
        space = cursor.next().text
        if space not in (".param", ".reg"):
            raise cursor.error(f"expected .param, found {space!r}")
        align, type_name = _type(cursor, of_param=True)
        if type_name == "f16x2":
            raise cursor.error("a parameter cannot have type .f16x2")
        name = "_" if unnamed and cursor.accept("_") else cursor.identifier()
        params.append(_param(cursor, name, align, type_name, space[1:]))
    cursor.expect(")")
    return params


def variables(cursor: Cursor, space: str, external: bool = False) -> list[Variable]:
    """What follows .global, .shared, .local, ...: up to and with the semicolon.

    Raises PtxSyntaxError, for initial values that do not fit too.
    """
    align, type_name = _type(cursor)
    variables = [_declarator(cursor, align, type_name, space, external)]
    while cursor.accept(","):
        variables.append(_declarator(cursor, align, type_name, space, external))
    cursor.expect(";")
    return variables


def _type(cursor: Cursor, *, of_param: bool = False) -> tuple[int, str]:
    """Alignment (0: natural) and type. `.ptr .global .align 16` of a parameter says nothing about
    where the parameter itself lies."""
    align, type_name, pointee = 0, "", False
    while cursor.peek.kind == "directive":
        word = cursor.next().text
        if word == ".align":
            if type_name and not of_param:
                raise cursor.error(".align must come before the type")
            number = _alignment(cursor)
            align = align if pointee else number
        elif word == ".ptr":
            pointee = True
        elif word == ".attribute":
            _attribute(cursor)
        elif word not in _SPACES or not pointee:
            if type_name:
                raise cursor.error(f"the variable has both .{type_name} and {word}")
            type_name = word[1:]
    if type_name not in _TYPES:
        raise cursor.error(f"a variable cannot have type {type_name!r}")
    return align, type_name


def _attribute(cursor: Cursor) -> None:
    cursor.expect("(")
    cursor.expect(".managed")
    cursor.expect(")")


def _alignment(cursor: Cursor) -> int:
    alignment = cursor.natural()
    if alignment not in _ALIGNMENTS:
        raise cursor.error(f"an alignment of {alignment} is not allowed")
    return alignment


def _param(cursor: Cursor, name: str, align: int, type_name: str, space: str) -> Variable:
    width = type_bits(type_name) // 8
    extents = _extents(cursor)
    if len(extents) > 1:
        raise cursor.error(f"{name} has more than one dimension")
    size = width * (extents[0] if extents else 1)
    param = Variable(name, space, size, align or width, external=not size, type=type_name)
    return _checked(cursor, param)


def _declarator(cursor: Cursor, align: int, type_name: str, space: str, external: bool) -> Variable:
    name, width = cursor.identifier(), type_bits(type_name) // 8
    extents = _extents(cursor)
    items: Sequence[tuple[int, _Item]] = ()
    if cursor.at("="):
        start = cursor.next()
        if external or space not in _INITIAL_SPACES:
            raise cursor.error(f"{name} in .{space} cannot have an initial value", start)
        tree = _tree(cursor)
        if extents and not extents[0] and isinstance(tree, list):
            extents[0] = len(tree)
        size = _size(width, extents)
        _checked(cursor, Variable(name, space, size, 1))
        if size > _LARGEST_INITIAL_BYTES:
            raise cursor.error(f"the initial values have {size} bytes, which is too many", start)
        items = list(_items(cursor, tree, extents, 0))
    variable = Variable(
        name, space, _size(width, extents), align or width, external=external, type=type_name
    )
    if variable.size == 0 and not external:
        raise cursor.error(f"{name} has no size")
    _checked(cursor, variable)
    return _filled(cursor, variable, width, items) if items else variable


def _checked(cursor: Cursor, variable: Variable) -> Variable:
    if variable.size > _LARGEST_BYTES:
        raise cursor.error(f"{variable.name} has {variable.size} bytes, which is too many")
    return variable


def _size(width: int, extents: list[int]) -> int:
    for extent in extents:
        width *= extent
    return width


def _extents(cursor: Cursor) -> list[int]:
    """[4][2]; of the first, where none is written, 0."""
    extents: list[int] = []
    while cursor.accept("["):
        if cursor.accept("]"):
            if extents:
                raise cursor.error("an inner dimension has no size")
            extents.append(0)
        else:
            extents.append(cursor.natural())
            cursor.expect("]")
    return extents


def _tree(cursor: Cursor) -> _Tree:
    """Constants, or addresses of symbols, in braces as the dimensions nest."""
    if not cursor.accept("{"):
        return _item(cursor)
    items: list[_Tree] = []
    if cursor.accept("}"):
        return items
    while not items or cursor.accept(","):
        items.append(_tree(cursor))
    cursor.expect("}")
    return items


def _item(cursor: Cursor) -> _Item:
    if starts(cursor.peek) or cursor.at("WARP_SZ"):
        return constant(cursor)
    name = cursor.identifier()
    if name == "generic":
        cursor.expect("(")
        name = cursor.identifier()
        cursor.expect(")")
    return _Address(name, whole(cursor) if cursor.accept("+") else 0)


def _items(
    cursor: Cursor, tree: _Tree, extents: Sequence[int], place: int
) -> Iterator[tuple[int, _Item]]:
    """(element, value); raises where braces and dimensions differ."""
    if not extents or not isinstance(tree, list):
        if extents or isinstance(tree, list):
            raise cursor.error("the initial values are not nested like the dimensions")
        yield place, tree
        return
    if len(tree) > extents[0]:
        raise cursor.error(f"there are {len(tree)} initial values for {extents[0]} elements")
    for number, each in enumerate(tree):
        yield from _items(cursor, each, extents[1:], place * extents[0] + number)


def _filled(
    cursor: Cursor, variable: Variable, width: int, items: Sequence[tuple[int, _Item]]
) -> Variable:
    data = bytearray(variable.size)
    relocations: list[Relocation] = []
    for place, item in items:
        at = place * width
        if isinstance(item, _Address):
            if variable.type not in _HOLD_ADDRESSES:
                raise cursor.error(
                    f"the address of {item.symbol} does not fit in a .{variable.type}"
                )
            relocations.append(Relocation(at, item.symbol, item.addend))
        else:
            value = _bits(cursor, item, variable.type)
            data[at : at + width] = (value % (1 << 8 * width)).to_bytes(width, "little")
    return replace(variable, initial=bytes(data), relocations=tuple(relocations))


def _bits(cursor: Cursor, item: Immediate, type_name: str) -> int:
    """The initial value as the type has it."""
    item = decimal(item, type_name)
    floats = type_name in ("f32", "f64")
    if type_name.startswith("f16") or (floats != (item.kind != "int") and type_name[0] != "b"):
        raise cursor.error(f"an initial value does not fit .{type_name}")
    if item.kind == "int" or item.kind == f"f{type_name[1:]}":
        return item.value
    form = {"f32": ("<I", "<f"), "f64": ("<Q", "<d")}
    have = form[item.kind]
    (number,) = struct.unpack(have[1], struct.pack(have[0], item.value))
    if type_name not in ("f64", "f32"):
        return item.value
    want = form[type_name]
    (value,) = struct.unpack(want[0], struct.pack(want[1], number))
    return int(value)
