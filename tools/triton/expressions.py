"""Arithmetic of a Triton launcher: what may be written, its types, and the same in C++.

A launcher is read and never executed in Python. Its integers are int64_t and its floats double, as
wide as the contract's scalars and Python's floats.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from astra_chat.tools.triton.compile import TYPES
from astra_chat.tools.types import DTYPE_CODES, DTypeName
from astra_chat.tools.wording import did_you_mean

Kind = Literal["int", "float", "bool", "pointer", "dtype", "text", "none"]
MAX_INTEGER = 2**62
OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
FUNCTIONS = {
    "min": "min",
    "max": "max",
    "triton.cdiv": "cdiv",
    "triton.next_power_of_2": "next_power_of_2",
}
FORM = (
    "write integers and floats, names, + - * / // %, comparisons, and or not, a if c else b,"
    " min, max, triton.cdiv, triton.next_power_of_2, x.dtype == tl.float16, x is None"
)
DTYPE_NAMES: dict[str, DTypeName] = {
    f"tl.{'int1' if name == 'bool' else called if called.startswith('float8') else name}": name
    for name, called in {**TYPES, "float8_e4m3fn": "float8e4nv", "float8_e5m2": "float8e5"}.items()
}


class NotAllowed(ValueError):
    """Something that a launcher may not contain, with its line."""

    def __init__(self, node: ast.AST, what: str) -> None:
        super().__init__(what)
        self.line: int = getattr(node, "lineno", 1)


@dataclass(frozen=True)
class LauncherNames:
    """What a launcher's names stand for."""

    kinds: Mapping[str, Kind]
    """Parameters and assigned names."""
    dtypes: Mapping[str, str]
    """Each tensor's dtype, or type variable."""
    codes: Mapping[str, str]
    """Parameter of C++ that holds the dtype code of a type variable."""


def function_of(node: ast.Call) -> str | None:
    """Name of the function that an expression calls; None where it may not be called."""
    return FUNCTIONS.get(ast.unparse(node.func)) if not node.keywords else None


def kind_of(node: ast.expr, names: LauncherNames) -> Kind:
    """Type of an expression. Raises NotAllowed."""
    match node:
        case ast.Constant():
            return _constant(node)
        case ast.Name(id=name):
            if name in names.kinds:
                return names.kinds[name]
            raise NotAllowed(node, f"{name} is not defined{did_you_mean(name, names.kinds)}")
        case ast.UnaryOp() | ast.BinOp() | ast.BoolOp():
            return _combined(node, names)
        case ast.Compare():
            return _compared(node, names)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            _require(test, names, "bool")
            return common_kind(node, kind_of(body, names), kind_of(orelse, names))
        case ast.Call(args=given):
            return _called(node, given, names)
        case ast.Attribute() if _is_dtype(ast.unparse(node), names):
            return "dtype"
    raise NotAllowed(node, f"{ast.unparse(node)[:80]}: {FORM}")


def _is_dtype(text: str, names: LauncherNames) -> bool:
    return text in DTYPE_NAMES or (
        text.endswith(".dtype") and text.removesuffix(".dtype") in names.dtypes
    )


def _combined(node: ast.UnaryOp | ast.BinOp | ast.BoolOp, names: LauncherNames) -> Kind:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _number(inner, names)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _require(inner, names, "bool")
        case ast.BinOp() if type(node.op) in OPERATORS:
            return _binary(node, names)
        case ast.BoolOp(values=values):
            for value in values:
                _require(value, names, "bool")
            return "bool"
    raise NotAllowed(node, f"{ast.unparse(node)[:80]}: {FORM}")


def _binary(node: ast.BinOp, names: LauncherNames) -> Kind:
    kinds = {_number(node.left, names), _number(node.right, names)}
    if isinstance(node.op, ast.FloorDiv | ast.Mod) and kinds != {"int"}:
        raise NotAllowed(node, f"{ast.unparse(node)[:80]}: // and % are allowed only for integers")
    return "float" if isinstance(node.op, ast.Div) or "float" in kinds else "int"


def common_kind(node: ast.AST, first: Kind, second: Kind) -> Kind:
    """Kind of a value that is one or the other. Raises NotAllowed."""
    if first == second:
        return first
    if {first, second} == {"int", "float"}:
        return "float"
    raise NotAllowed(node, f"{ast.unparse(node)[:80]}: this is both {first} and {second}")


def _constant(node: ast.Constant) -> Kind:
    match node.value:
        case bool():
            return "bool"
        case int() if abs(node.value) <= MAX_INTEGER:
            return "int"
        case float() if math.isfinite(node.value):
            return "float"
        case str():
            return "text"
        case None:
            return "none"
    raise NotAllowed(node, f"{ast.unparse(node)[:80]}: {FORM}")


def _number(node: ast.expr, names: LauncherNames) -> Kind:
    kind = kind_of(node, names)
    if kind not in ("int", "float"):
        raise NotAllowed(node, f"{ast.unparse(node)[:80]}: this is {kind}, but a number is needed")
    return kind


def _require(node: ast.expr, names: LauncherNames, wanted: Kind) -> Kind:
    kind = kind_of(node, names)
    if kind != wanted:
        raise NotAllowed(node, f"{ast.unparse(node)[:80]}: this is {kind}, but {wanted} is needed")
    return kind


def _compared(node: ast.Compare, names: LauncherNames) -> Kind:
    sides = [node.left, *node.comparators]
    operators = [type(one) for one in node.ops]
    if operators[0] in (ast.Is, ast.IsNot) and len(sides) == 2:
        _require(sides[0], names, "pointer")
        _require(sides[1], names, "none")
        return "bool"
    kinds = [kind_of(side, names) for side in sides]
    if set(kinds) == {"dtype"}:
        if len(sides) == 2 and operators[0] in (ast.Eq, ast.NotEq):
            return "bool"
    elif all(one in COMPARISONS for one in operators) and set(kinds) <= {"int", "float"}:
        return "bool"
    raise NotAllowed(node, f"{ast.unparse(node)[:80]}: {FORM}")


def _called(node: ast.Call, given: Sequence[ast.expr], names: LauncherNames) -> Kind:
    called = function_of(node)
    if called is None:
        raise NotAllowed(node, f"{ast.unparse(node.func)[:80]}(...): {FORM}")
    if called in ("min", "max") and len(given) >= 2:
        kinds = [_number(one, names) for one in given]
        return "float" if "float" in kinds else "int"
    if len(given) != (1 if called == "next_power_of_2" else 2):
        raise NotAllowed(node, f"{ast.unparse(node)[:80]}: wrong number of arguments")
    for one in given:
        _require(one, names, "int")
    return "int"


HELPERS = """\
inline int64_t floor_div(int64_t a, int64_t b) {
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}
inline int64_t floor_mod(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }
inline int64_t cdiv(int64_t a, int64_t b) { return floor_div(a + b - 1, b); }
inline int64_t next_power_of_2(int64_t a) {
  if (a <= 0) return 0;
  int64_t power = 1;
  while (power < a) power *= 2;
  return power;
}
"""
C_TYPES: dict[Kind, str] = {"int": "int64_t", "float": "double", "bool": "bool"}
"""Types of assigned names."""


def variable(name: str, parameters: Mapping[str, object]) -> str:
    """An assigned name in C++, apart from C++'s own words."""
    return name if name in parameters else f"v_{name}"


def literal(value: object) -> str:
    """A number or truth value in C++."""
    if isinstance(value, bool):
        return str(value).lower()
    wide = isinstance(value, int) and abs(value) > 2**31 - 1
    return f"INT64_C({value})" if wide else repr(value)


@dataclass(frozen=True)
class Cpp:
    """Writes expressions that `kind_of` allows as C++."""

    names: LauncherNames
    parameters: Mapping[str, object]

    def text(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=value):
                return literal(value)
            case ast.Name(id=name):
                return variable(name, self.parameters)
            case ast.UnaryOp(op=operator, operand=inner):
                return f"({'!' if isinstance(operator, ast.Not) else '-'}{self.text(inner)})"
            case ast.BinOp(left=left, op=operator, right=right):
                return self._binary(operator, self.text(left), self.text(right))
            case ast.BoolOp(op=operator, values=values):
                sign = " && " if isinstance(operator, ast.And) else " || "
                return f"({sign.join(map(self.text, values))})"
            case ast.Compare():
                return self._comparison(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return f"({self.text(test)} ? {self.text(body)} : {self.text(orelse)})"
            case ast.Call(args=given):
                return self._call(node, given)
        raise AssertionError(ast.dump(node))

    def _binary(self, operator: ast.operator, left: str, right: str) -> str:
        match operator:
            case ast.FloorDiv():
                return f"floor_div({left}, {right})"
            case ast.Mod():
                return f"floor_mod({left}, {right})"
            case ast.Div():
                return f"(static_cast<double>({left}) / {right})"
        return f"({left} {OPERATORS[type(operator)]} {right})"

    def _comparison(self, node: ast.Compare) -> str:
        sides = [node.left, *node.comparators]
        if isinstance(node.ops[0], ast.Is | ast.IsNot):
            sign = "==" if isinstance(node.ops[0], ast.Is) else "!="
            return f"({self.text(sides[0])} {sign} nullptr)"
        if all(kind_of(side, self.names) == "dtype" for side in sides):
            texts = [self._dtype(side) for side in sides]
        else:
            texts = [self.text(side) for side in sides]
        pairs = zip(texts, node.ops, texts[1:], strict=False)
        return f"({' && '.join(f'{a} {COMPARISONS[type(op)]} {b}' for a, op, b in pairs)})"

    def _dtype(self, node: ast.expr) -> str:
        text = ast.unparse(node)
        if text in DTYPE_NAMES:
            return str(DTYPE_CODES[DTYPE_NAMES[text]])
        dtype = self.names.dtypes[text.removesuffix(".dtype")]
        return self.names.codes.get(dtype) or str(DTYPE_CODES[dtype])

    def _call(self, node: ast.Call, given: Sequence[ast.expr]) -> str:
        called = function_of(node)
        first, *others = map(self.text, given)
        if called not in ("min", "max"):
            return f"{called}({', '.join([first, *others])})"
        kind = C_TYPES[kind_of(node, self.names)]
        for other in others:
            first = f"std::{called}<{kind}>({first}, {other})"
        return first
