"""Relations between dims: extents that do not meet them are changed until they do.

A relation with a dim by itself on one side is met by setting that dim; what other relations say is
only tried.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

from astra_chat.tools.task.contract import Dim
from astra_chat.tools.task.expressions import holds, parse, parse_relation
from astra_chat.tools.types import DTypeName

PASSES = 4
OCTAVES = 24
MIRRORED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}


def broken(require: Sequence[str], names: Mapping[str, int]) -> str:
    """The first relation that is false of these values, or ""."""
    for relation in require:
        try:
            if not holds(relation, names):
                return relation
        except ZeroDivisionError:
            return relation
    return ""


def settled(
    require: Sequence[str],
    dims: Mapping[str, Dim],
    extents: Mapping[str, int],
    dtype: DTypeName,
    keep: Collection[str] = (),
    scalars: Mapping[str, int] = {},
) -> dict[str, int] | None:
    """Legal extents that meet every relation, near these; those in `keep` stay as they are.

    None where this finds none. `scalars` are the integer scalars that relations name.
    """
    found = {
        name: extent if name in keep else dims[name].nearest(extent, dtype)
        for name, extent in extents.items()
    }
    for _ in range(PASSES * len(require) + 1):
        relation = broken(require, {**scalars, **found})
        if not relation:
            return found
        change = next(_changes(relation, dims, found, dtype, keep, scalars), None)
        if change is None:
            return None
        found |= change
    return None


def _changes(
    relation: str,
    dims: Mapping[str, Dim],
    extents: Mapping[str, int],
    dtype: DTypeName,
    keep: Collection[str],
    scalars: Mapping[str, int],
) -> Iterator[dict[str, int]]:
    """Changes of one dim by which the relation becomes true."""
    names = {**scalars, **extents}
    for name, wanted in (*_wanted(relation, names), *_scaled(relation, names)):
        if name not in dims or name in keep:
            continue
        for extent in wanted:
            for one in (dims[name].nearest(extent, dtype), dims[name].above(extent, dtype)):
                if not broken([relation], {**names, name: one}):
                    yield {name: one}


def _scaled(relation: str, names: Mapping[str, int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Each name, and extents ever further from its own: one side of the relation grows or falls."""
    for name in sorted(parse_relation(relation).names):
        own = names[name]
        yield name, tuple(e for k in range(1, OCTAVES) for e in (own << k, own >> k))


def _wanted(relation: str, names: Mapping[str, int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names, and extents that come nearest to meeting the relation."""
    node = parse_relation(relation).tree
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return
    left, right, kind = node.left, node.comparators[0], type(node.ops[0])
    for side, other, how in ((left, right, kind), (right, left, MIRRORED.get(kind, kind))):
        match side:
            case ast.Name(id=name):
                value = _value(other, names)
                beside = {ast.Lt: -1, ast.Gt: 1, ast.NotEq: 1}.get(how, 0)
                yield name, (value + beside, value + 2 * beside)
            case ast.BinOp(left=ast.Name(id=name), op=ast.Mod(), right=divisor):
                step, rest = _value(divisor, names), _value(other, names)
                if step:
                    down = names[name] - (names[name] - rest) % step
                    yield name, (down, down + step)


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    try:
        return parse(ast.unparse(node)).value(names)
    except ZeroDivisionError:
        return 0
