"""Dims that give a call's extents: "2*d" is 256 where d is 128."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from astra_chat.tools.task.expressions import assignments, evaluate, parse

LARGEST = 2**40


def solved(
    dims: Sequence[str], known: Mapping[str, int], pairs: Sequence[tuple[str, str, int]]
) -> dict[str, int]:
    """A value for each of these dims, so that each expression has its extent. `pairs` are (where,
    expression, extent). Raises ValueError that says what does not hold, or cannot be known."""
    names = dict(known)
    order = sorted(pairs, key=lambda pair: _vagueness(pair[1]))
    left = list(order)
    while found := _next(left, names):
        names |= found
    for where, expression, extent in order:
        if parse(expression).names <= names.keys():
            value = evaluate(expression, names)
            if value != extent:
                some = {name: names[name] for name in sorted(parse(expression).names)}
                with_these = f" with {assignments(some)}" if some else ""
                raise ValueError(
                    f"{where} is {extent}, but the contract says {expression}"
                    + (f", which is {value}{with_these}" if some else "")
                )
    if unknown := [name for name in dims if name not in names]:
        raise ValueError(
            f"dim '{unknown[0]}' cannot be derived from the shapes: name its parameter with --map"
            f" {unknown[0]}=PARAMETER"
        )
    return names


def _vagueness(expression: str) -> int:
    """Expressions that say most of a dim come first: its name, then what has one solution."""
    if expression.isidentifier():
        return 0
    return 2 if any(word in expression for word in ("//", "ceil_div", "%", "min", "max")) else 1


def _next(pairs: Sequence[tuple[str, str, int]], names: Mapping[str, int]) -> dict[str, int]:
    """The value of one more dim; empty: none follows."""
    for _, expression, extent in pairs:
        unknown = parse(expression).names - names.keys()
        if len(unknown) == 1:
            name = next(iter(unknown))
            value = _solution(expression, extent, name, names)
            if value is not None:
                return {name: value}
    return {}


def _solution(expression: str, extent: int, name: str, names: Mapping[str, int]) -> int | None:
    """The value that gives this extent, for expressions that grow with the dim. Of several the one
    that is divided by the largest power of two: 512 for ceil_div(d, 128) = 4."""

    def at(value: int) -> int:
        try:
            return evaluate(expression, {**names, name: value})
        except ZeroDivisionError:
            return -1

    least = _first(lambda value: at(value) >= extent)
    if least is None or at(least) != extent:
        return None
    after = _first(lambda value: at(value) > extent)
    greatest = least if after is None else after - 1
    return max((least, greatest), key=lambda value: value & -value)


def _first(holds: Callable[[int], bool]) -> int | None:
    """The least number from 0 on for which it holds, if it holds from there on."""
    low, high = 0, 1
    while not holds(high):
        low, high = high, high * 2
        if high > LARGEST:
            return None
    if holds(0):
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
