"""Expressions of a contract as C++: for the checks of a binding."""

from __future__ import annotations

import ast
from collections.abc import Callable

from astra_chat.tools.task.expressions import parse, parse_relation

Spelled = Callable[[str], str]
"""A name of the contract as C++."""
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%"}
_COMPARISONS = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


def cpp(text: str, spelled: Spelled) -> str:
    """An expression as C++ of int64_t. Extents are never negative, so // is /."""
    return _cpp(parse(text).tree, spelled)


def cpp_relation(text: str, spelled: Spelled) -> str:
    """A relation as a C++ condition."""
    tree = parse_relation(text).tree
    assert isinstance(tree, ast.Compare)
    sides = [_cpp(side, spelled) for side in (tree.left, *tree.comparators)]
    pairs = zip(sides, tree.ops, sides[1:], strict=False)
    return " && ".join(f"{a} {_COMPARISONS[type(op)]} {b}" for a, op, b in pairs)


def factors(text: str) -> tuple[str, ...] | None:
    """The names and numbers of a product; None for what is none."""
    return _factors(parse(text).tree)


def _factors(node: ast.expr) -> tuple[str, ...] | None:
    match node:
        case ast.Name(id=name):
            return (name,)
        case ast.Constant(value=int(number)):
            return (str(number),)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            first, second = _factors(left), _factors(right)
            return None if first is None or second is None else (*first, *second)
    return None


def _cpp(node: ast.expr, spelled: Spelled) -> str:
    match node:
        case ast.Name(id=name):
            return spelled(name)
        case ast.Constant(value=int(number)):
            return f"int64_t{{{number}}}"
        case ast.BinOp(left=left, op=operator, right=right):
            sign = _OPERATORS[type(operator)]
            if sign == "*":
                return f"{_cpp(left, spelled)}*{_cpp(right, spelled)}"
            return f"({_cpp(left, spelled)} {sign} {_cpp(right, spelled)})"
        case ast.UnaryOp(operand=operand):
            return f"(-{_cpp(operand, spelled)})"
        case ast.Call(func=ast.Name(id=name), args=given):
            values = [_cpp(value, spelled) for value in given]
            if name == "ceil_div":
                return f"(({values[0]} + {values[1]} - 1) / {values[1]})"
            return f"std::{name}<int64_t>({{{', '.join(values)}}})"
    raise ValueError(f"not an expression: {ast.dump(node)}")
