"""Mutation operators: small faults that people make in kernels, as edits of C++ tokens.

They read tokens, not syntax, so they work on any kernel; an edit that is not valid C++ does not
build and is dropped later. Directives are left alone. Operators after DeMillo, Lipton and Sayward
(1978) and Offutt's selective set (relational, arithmetic, constants), and after common bugs of CUDA
kernels: tails, missing outputs, barriers, precision, strides, indices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from astra_chat.tools.cpp_tokens import Code, Token, tokens


@dataclass(frozen=True)
class Edit:
    """Replaces source[start:end] by `text`."""

    start: int
    end: int
    text: str

    def apply(self, source: str) -> str:
        return source[: self.start] + self.text + source[self.end :]


@dataclass(frozen=True)
class Fault:
    """One edit and what kind of mistake it is."""

    operator: str
    edit: Edit


class EditableCode(Code):
    """The tokens of a source that are no part of a directive, with what stands round them."""

    def __init__(self, source: str) -> None:
        self.source = source
        super().__init__(t for t in tokens(source) if not t.directive and self._as_written(t))

    def _as_written(self, token: Token) -> bool:
        """Not a digraph, a literal or a token that a line splice cuts: those are left alone."""
        end = token.at + len(token.text)
        return token.at >= 0 and self.source[token.at : end] == token.text

    def text(self, index: int) -> str:
        """Text of the token at `index`; "" outside."""
        return self[index].text if 0 <= index < len(self) else ""

    def start(self, index: int) -> int:
        return self[index].at

    def end(self, index: int) -> int:
        return self[index].at + len(self[index].text)

    def replace(self, first: int, last: int, text: str) -> Edit:
        """An edit that replaces tokens `first` to `last`, both included."""
        return Edit(self.start(first), self.end(last), text)

    def between(self, first: int, last: int) -> str:
        """Source from token `first` to token `last`, both included."""
        return self.source[self.start(first) : self.end(last)]

    def touches(self, index: int) -> bool:
        """Whether a token and the next one stand together, as the parts of `+=` do."""
        return index + 1 < len(self) and self.end(index) == self.start(index + 1)

    def spaced(self, index: int) -> bool:
        """Whether there are blanks on both sides: they distinguish a binary operator from a pointer
        or a template."""
        around = self.source[self.start(index) - 1] + self.source[self.end(index)]
        return around.isspace()

    def is_operand(self, index: int) -> bool:
        return 0 <= index < len(self) and (
            self[index].kind in ("name", "number") or self.text(index) in (")", "]")
        )

    def statement_end(self, index: int) -> int | None:
        """The semicolon that ends the statement at `index`; None where a block comes first, or the
        end of a loop's head."""
        depth = 0
        for at in range(index, len(self)):
            text = self.text(at)
            if text in ("{", "}"):
                return None
            depth += text in ("(", "[")
            depth -= text in (")", "]")
            if depth < 0:
                return None
            if text == ";" and depth == 0:
                return at
        return None

    def starts_statement(self, index: int) -> bool:
        return self.text(index - 1) in (";", "{", "}", ")")


def faults(source: str, scalars: Sequence[str] = ()) -> list[Fault]:
    """All faults that the operators make of a source; `scalars` are the contract's, such as eps."""
    code = EditableCode(source)
    token_faults = [
        Fault(name, edit)
        for name, operator in OPERATORS.items()
        for index in range(len(code))
        for edit in operator(code, index)
    ]
    return [*token_faults, *(Fault("scalar", edit) for edit in _scalars(code, scalars))]


def _last(code: EditableCode, at: int) -> Iterator[Edit]:
    """The last element, vector or round of a bound is left out: a < b becomes a + 1 < b."""
    if code.text(at) == "<" and code.spaced(at) and code.is_operand(at - 1):
        yield code.replace(at, at, "+ 1 <")


def _bound(code: EditableCode, at: int) -> Iterator[Edit]:
    """One too many, or one too few: < and <=, > and >= for each other."""
    if code.text(at) not in ("<", ">") or not code.is_operand(at - 1):
        return
    if code.spaced(at):
        yield code.replace(at, at, code.text(at) + "=")
    elif code.touches(at) and code.text(at + 1) == "=":
        yield code.replace(at, at + 1, code.text(at))


def _arithmetic(code: EditableCode, at: int) -> Iterator[Edit]:
    """Another binary operator."""
    others = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/"}
    if code.text(at) in others and code.spaced(at) and code.is_operand(at - 1):
        yield code.replace(at, at, others[code.text(at)])


def _accumulate(code: EditableCode, at: int) -> Iterator[Edit]:
    """A sum that keeps its last term only: += becomes =; not in the head of a loop, which would
    never end."""
    assigns = code.touches(at) and code.text(at + 1) == "="
    if code.text(at) in ("+", "*") and assigns and code.statement_end(at) is not None:
        yield code.replace(at, at, "")


EXTREMES = {
    low.replace("?", word): low.replace("?", other)
    for low in ("?", "f?", "f?f", "f?_", "__h?", "__h?2", "__v?2", "atomic?")
    for word, other in (("max", "min"), ("min", "max"))
} | {"atomicMax": "atomicMin", "atomicMin": "atomicMax"}


def _extreme(code: EditableCode, at: int) -> Iterator[Edit]:
    """max for min."""
    if code.text(at) in EXTREMES and code.text(at + 1) == "(":
        yield code.replace(at, at, EXTREMES[code.text(at)])


def _constant(code: EditableCode, at: int) -> Iterator[Edit]:
    """A floating-point constant that is off by one per cent, zero that is not zero."""
    token = code[at]
    if token.kind != "number" or token.text[:2].lower() == "0x" or "." not in token.text:
        return
    if not token.text.rstrip("fF").replace(".", "").strip("0"):
        yield code.replace(at, at, "0.0078125f")
    else:
        yield code.replace(at, at, f"({token.text} * 1.01f)")


def _number(code: EditableCode, at: int) -> Iterator[Edit]:
    """A whole number in a sum or a comparison that is off by one."""
    if code[at].kind == "number" and code.text(at).isdecimal():
        if code.text(at - 1) in ("+", "-", "<", ">") and code.spaced(at - 1):
            yield code.replace(at, at, str(int(code.text(at)) + 1))
        if code.text(at - 1) == "=" and code.text(at - 2) in ("=", "!"):
            yield code.replace(at, at, str(int(code.text(at)) + 1))


def _barrier(code: EditableCode, at: int) -> Iterator[Edit]:
    """A barrier is missing."""
    if code.text(at) in ("__syncthreads", "__syncwarp") and code.text(at + 1) == "(":
        closing = code.closing(at + 1)
        if closing < len(code):
            yield code.replace(at, closing, "")


HALF = "__half2float(__float2half_rn({}))"


def _precision(code: EditableCode, at: int) -> Iterator[Edit]:
    """A float is held in half precision on its way."""
    if code.text(at) == "=" and code.text(at - 2) == "float" and not code.touches(at):
        first = at + 1
    elif code.text(at) == "=" and code.text(at - 1) == "+" and code.touches(at - 1):
        end, target = code.statement_end(at), code.text(at - 2)
        if end is not None and code[at - 2].kind == "name" and end > at + 1:
            sum_ = f"{target} + ({code.between(at + 1, end - 1)})"
            yield code.replace(at - 1, end - 1, "= " + HALF.format(sum_))
        return
    else:
        return
    end = code.statement_end(first)
    if end is not None and end > first and code.text(first) != "{":
        yield code.replace(first, end - 1, HALF.format(code.between(first, end - 1)))


def _statement(code: EditableCode, at: int) -> Iterator[Edit]:
    """A store, or the call that stores, is forgotten: whole statements that begin with a name
    that is indexed or called, or with the * of a pointer."""
    called = code[at].kind == "name" and code.text(at + 1) in ("[", "(")
    if not code.starts_statement(at) or not (called or code.text(at) == "*"):
        return
    if code.text(at) in (
        "if",
        "for",
        "while",
        "switch",
        "return",
        "sizeof",
        "__syncthreads",
        "asm",
    ):
        return
    end = code.statement_end(at)
    behind = code.closing(at + 1) + 1
    if end is None or (called and code.text(behind) not in (";", "=", "[", ".")):
        return
    yield code.replace(at, end, ";")


def _guard(code: EditableCode, at: int) -> Iterator[Edit]:
    """A special case is missing: tests for NaN and infinity say no."""
    special = ("isinf", "isnan", "isfinite", "__isinff", "__isnanf", "__hisnan", "__hisinf")
    if code.text(at) in special and code.text(at + 1) == "(":
        closing = code.closing(at + 1)
        if closing < len(code):
            value = "true" if code.text(at) == "isfinite" else "false"
            yield code.replace(at, closing, value)


def _return(code: EditableCode, at: int) -> Iterator[Edit]:
    """An early way out is missing: `if (index >= count) return;`."""
    if code.text(at) == "if" and code.text(at + 1) == "(":
        closing = code.closing(at + 1)
        if (code.text(closing + 1), code.text(closing + 2)) == ("return", ";"):
            yield code.replace(at, closing + 2, ";")


def _subscript(code: EditableCode, at: int) -> Iterator[Edit]:
    """The neighbour is read or written: a[i] becomes a[i + 1]."""
    declared = at > 1 and code[at - 2].kind == "name" and code.text(at - 2) != "return"
    if code.text(at) == "[" and code.is_operand(at - 1) and not declared:
        closing = code.closing(at)
        if at + 1 < closing < len(code):
            inner = code.between(at + 1, closing - 1)
            yield code.replace(at + 1, closing - 1, f"({inner}) + 1")


def _stride(code: EditableCode, at: int) -> Iterator[Edit]:
    """One tensor's stride for another's."""
    name = code.text(at)
    if not name.endswith("stride") or code.text(at - 1) not in ("*", "+", "(", ",", "|"):
        return
    others = {t.text for t in code if t.text.endswith("stride") and t.text != name}
    for other in sorted(others):
        yield code.replace(at, at, other)


def _axis(code: EditableCode, at: int) -> Iterator[Edit]:
    """Another axis, or another index: x for y, thread for block."""
    if code.text(at) in ("threadIdx", "blockIdx") and code.text(at + 1) == ".":
        other = "y" if code.text(at + 2) == "x" else "x"
        yield code.replace(at + 2, at + 2, other)


def _narrow(code: EditableCode, at: int) -> Iterator[Edit]:
    """An index in too few bits."""
    cast = code.text(at - 1) == "<" and code.text(at - 2) == "static_cast"
    cast &= code.text(at + 3) != "sizeof"
    if cast and code.text(at) in ("int64_t", "size_t", "uint64_t"):
        yield code.replace(at, at, "int")
    if cast and code.text(at) in ("int", "unsigned", "uint32_t", "int32_t"):
        yield code.replace(at, at, "short")


def _scalars(code: EditableCode, scalars: Sequence[str]) -> Iterator[Edit]:
    """A scalar of the contract is twice what it should be, wherever it is used in a sum."""
    for at, token in enumerate(code):
        if token.text in scalars and code.text(at - 1) in ("+", "-", "*", "/"):
            yield code.replace(at, at, f"(2 * {token.text})")


OPERATORS: dict[str, Callable[[EditableCode, int], Iterator[Edit]]] = {
    "last": _last,
    "bound": _bound,
    "arithmetic": _arithmetic,
    "accumulate": _accumulate,
    "extreme": _extreme,
    "constant": _constant,
    "number": _number,
    "barrier": _barrier,
    "precision": _precision,
    "statement": _statement,
    "guard": _guard,
    "return": _return,
    "subscript": _subscript,
    "stride": _stride,
    "axis": _axis,
    "narrow": _narrow,
}
"""Operators by name: each yields the edits that it makes at a token."""
