"""Expressions of a contract: extents, strides, bounds and operations, and relations between dims.

An expression holds integers, names, + - * // %, parentheses, ceil_div(a, b), min and max; a
relation is a comparison of two of them. They are read by Python's parser, and only what is listed
here is let through.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

MAX_CHARACTERS = 300
MAX_NUMBER = 2**63 - 1


def ceil_div(a: int, b: int) -> int:
    """The least integer that is at least a / b."""
    return -(-a // b)


FUNCTIONS: dict[str, Callable[..., int]] = {"ceil_div": ceil_div, "min": min, "max": max}
GLOBALS: dict[str, object] = {"__builtins__": {}, **FUNCTIONS}
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
FORM = "write + - * // %, integers, dims, ceil_div(a, b), min(a, b), max(a, b)"


@dataclass(frozen=True)
class Expression:
    """A checked expression or relation."""

    text: str
    names: frozenset[str]
    """Names of dims and scalars in it."""
    tree: ast.expr
    code: CodeType
    name: str = ""
    """The name that is all of it; "" where there is more."""

    def value(self, names: Mapping[str, int]) -> int:
        """Returns the value for given values of its names; of a relation 1 or 0. Raises
        ZeroDivisionError, and KeyError for a name that has no value."""
        if self.name:  # most are: an evaluation asks for 200,000 values
            return int(names[self.name])
        for name in self.names:
            if name not in names:
                raise KeyError(name)
        return int(eval(self.code, GLOBALS, names))


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """Parse an expression. Raises ValueError that says what is not an expression, and what would
    be."""
    return _parsed(text, _require_arithmetic)


@lru_cache(maxsize=4096)
def parse_relation(text: str) -> Expression:
    """Parse a relation: "rot_dim <= head_size". Raises ValueError."""
    return _parsed(text, _require_relation)


def evaluate(text: str, names: Mapping[str, int]) -> int:
    """Value of "2*d" for given values of its names."""
    return parse(text).value(names)


def holds(relation: str, names: Mapping[str, int]) -> bool:
    """Whether "rot_dim <= head_size" is true of these values."""
    return bool(parse_relation(relation).value(names))


def _parsed(text: str, require: Callable[[str, ast.expr], None]) -> Expression:
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"an expression has more than {MAX_CHARACTERS} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        require(text, tree.body)
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"'{text}' is not an expression: {FORM}") from None
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = frozenset(
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called
    )
    name = tree.body.id if isinstance(tree.body, ast.Name) else ""
    return Expression(text, names, tree.body, compile(tree, "<task.toml>", "eval"), name)


def _require_relation(text: str, node: ast.expr) -> None:
    if not isinstance(node, ast.Compare):
        raise ValueError(f"'{text}' is not a relation: write one such as 'rot_dim <= head_size'")
    if not all(isinstance(operator, _COMPARISONS) for operator in node.ops):
        raise ValueError(f"'{text}': a relation compares with < <= == != >= >")
    for side in (node.left, *node.comparators):
        _require_arithmetic(text, side)


def _require_arithmetic(text: str, node: ast.expr) -> None:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            if number > MAX_NUMBER:
                raise ValueError(f"'{text}': {number} does not fit in 64 bits")
        case ast.Name(id=name):
            if name in FUNCTIONS:
                raise ValueError(f"'{text}': {name} is a function: write {name}(a, b)")
        case ast.BinOp(left=left, op=operator, right=right) if isinstance(operator, _OPERATORS):
            _require_arithmetic(text, left)
            _require_arithmetic(text, right)
        case ast.BinOp(op=ast.Div()):
            raise ValueError(f"'{text}': '/' does not give an integer: write // or ceil_div(a, b)")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            _require_arithmetic(text, operand)
        case ast.Call(func=ast.Name(id=name), args=given, keywords=[]) if name in FUNCTIONS:
            _require_call(text, name, given)
        case _:
            raise ValueError(f"'{text}': {FORM}")


def _require_call(text: str, name: str, given: list[ast.expr]) -> None:
    if len(given) < 2 or (name == "ceil_div" and len(given) != 2):
        raise ValueError(f"'{text}': {name} takes two arguments")
    for each in given:
        _require_arithmetic(text, each)


def _as_text(value: Any) -> Any:
    """Returns the text of an integer, which stands for itself."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _checked(text: str) -> str:
    parse(text)
    return text


def _checked_relation(text: str) -> str:
    parse_relation(text)
    return text


Extent = Annotated[str, BeforeValidator(_as_text), AfterValidator(_checked)]
"""An expression: "tokens", "2*d", "ceil_div(tokens, 64)", or an integer."""
Relation = Annotated[str, AfterValidator(_checked_relation)]


def assignments(values: Mapping[str, int]) -> str:
    """Names with their values: a = 1, b = 2."""
    return ", ".join(f"{name} = {value}" for name, value in values.items())
