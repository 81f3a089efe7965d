"""Numbers that PTX compares with or selects by, led back to what they were computed from.

A number stands for a way out of the usual path: `if (n == 4711)`. Where what is compared was
computed from something else by a few steps (n / 128, n - 5, n & 1023, x * 2), the number is led
back through them, so that it is one of the extent, the index or the value itself. The text is read
statement by statement; what is not understood gives no number and no error.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from astra_chat.tools.check.ptx_steps import Target, backwards, float_of, integer_of

Source = Literal["parameter", "memory", "block", "thread", "other"]
"""Where a compared register comes from: a parameter of the kernel, memory, the number of a block or
of a thread, or anything else."""
Register = str
DEPTH, MOST_DEFINITIONS = 10, 3
"""Steps back, and definitions of one register that are followed: those nearest before."""
MOST_TARGETS = 16
"""Most registers to which a number of one comparison is led back."""
TABLE = 64
"""Entries of an initialised table that is read as numbers."""
_FUNCTION = re.compile(r"\.(?:entry|func)\b")
_STATEMENT = re.compile(r"(?:@!?[%\w$]+\s+)?([a-z][\w]*(?:(?:::|\.)[\w:]+)*)\s+(.+)", re.S)
_LABEL = re.compile(r"^\s*[\w$]+:\s*")
_OPERANDS = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,\s][^,]*")
_TABLE = re.compile(
    r"\.(?:const|global)\b[^;=]*\.([busf]\d+)\s+[\w$]+\[\d*\]\s*=\s*\{([^}]*)\}", re.S
)
_SOURCES: tuple[tuple[str, Source], ...] = (
    ("%ctaid", "block"),
    ("%nctaid", "block"),
    ("%tid", "thread"),
    ("%ntid", "thread"),
    ("%laneid", "thread"),
    ("%warpid", "thread"),
)
_COARSE = ("shr.", "div.", "and.")
"""Opcodes that make one number of many, so a single number of their result is a bound of what they
take: `x >> 19` is 0 up to 524287."""
_COMPARING = ("setp", "set", "min", "max", "slct", "selp")


@dataclass(frozen=True)
class PtxNumber:
    """A number of a comparison, led back."""

    target: Target
    sources: frozenset[Source]
    ordered: bool
    """It is a bound (<, min), not a single value (==)."""


@dataclass(frozen=True)
class _Definition:
    opcode: str
    results: tuple[str, ...]
    operands: tuple[str, ...]


def ptx_numbers(ptx: str) -> Iterator[PtxNumber]:
    """The numbers of all functions, in their order; the same one may come several times."""
    definitions: dict[Register, list[_Definition]] = defaultdict(list)
    for statement in _statements(ptx):
        if _FUNCTION.search(statement):
            definitions.clear()
        found = _STATEMENT.fullmatch(statement)
        if not found or statement.startswith("."):
            continue
        opcode, operands = found[1], tuple(o.strip() for o in _OPERANDS.findall(found[2]))
        if not operands:
            continue
        try:
            yield from list(_numbers(opcode, operands, definitions))
        except (ArithmeticError, ValueError):  # arithmetic beyond what floats and texts hold
            pass
        results = _names(operands[0])
        for name in results:
            known = definitions[name]
            known.append(_Definition(opcode, results, operands[1:]))
            del known[:-MOST_DEFINITIONS]
    yield from _table_numbers(ptx)


def _statements(ptx: str) -> Iterator[str]:
    """Yields the statements without labels, comments and the lines that say where in the source
    something stands."""
    for line in re.sub(r"/\*.*?\*/", " ", ptx, flags=re.S).splitlines():
        line = line.partition("//")[0].strip()
        if not line or line.startswith((".loc", ".file", ".section", ".b8", ".pragma")):
            continue
        for part in re.split(r"[;]|^\{|\}$", line):
            text = _LABEL.sub("", part.strip()).strip()
            if text:
                yield text


def _names(operand: str) -> tuple[str, ...]:
    """Registers of a result: one, several in braces, or d|p."""
    return tuple(part.strip() for part in re.split(r"[{},|]", operand) if part.strip())


def _numbers(
    opcode: str, operands: tuple[str, ...], definitions: dict[Register, list[_Definition]]
) -> Iterator[PtxNumber]:
    """Yields the numbers of one instruction: of a comparison, of a table of branches, and of what
    takes a number away, which is zero where both are equal."""
    family, *modifiers = opcode.split(".")
    kind = modifiers[-1] if modifiers else ""
    if family in _COMPARING:
        ordered = not (family in ("setp", "set") and modifiers[0] in ("eq", "ne", "equ", "neu"))
        values = operands[1:3]
        for compared, other in (values, values[::-1]) if len(values) == 2 else ():
            for number, own in _constants(other, kind, definitions):
                yield from _led_back(compared, number, own, ordered, definitions)
                if ordered and kind.startswith("u"):
                    yield from _led_back(compared, 0, kind, ordered, definitions)
    elif family == "brx":
        for number in range(TABLE if len(operands) > 1 else 0):
            yield from _led_back(operands[0], number, "u32", False, definitions)
    elif family in ("add", "sub", "xor") and kind[:1] in "subc" and len(operands) > 2:
        taken = integer_of(operands[2], kind)
        if taken is not None and (family != "add" or taken < 0):
            away = -taken if family == "add" else taken
            yield from _led_back(operands[1], away, kind, True, definitions)


def _constants(
    operand: str, kind: str, definitions: dict[Register, list[_Definition]], depth: int = 3
) -> Iterator[tuple[float, str]]:
    """Numbers that the operand is, each with its kind: an immediate, or a register that was set to
    one. A float register may be set to the bits of a number; then the kind is that of bits."""
    floating = kind.startswith(("f", "bf"))
    immediate = float_of(operand) if floating else integer_of(operand, kind)
    if immediate is not None:
        yield immediate, kind
        return
    bits = integer_of(operand, kind) if floating else None
    if bits is not None:
        yield bits, f"b{32 if 'x' in kind else re.sub('[^0-9]', '', kind)}"
        return
    for definition in definitions.get(operand, ()) if depth else ():
        family, *modifiers = definition.opcode.split(".")
        if family in ("mov", "cvt") and len(definition.operands) == 1:
            (value,) = definition.operands
            inner = modifiers[-1] if family == "cvt" and modifiers else kind
            yield from _constants(value, inner, definitions, depth - 1)


def _led_back(
    register: str,
    number: float,
    kind: str,
    ordered: bool,
    definitions: dict[Register, list[_Definition]],
) -> Iterator[PtxNumber]:
    """The number as one of the register, and of what it was computed from."""
    if integer_of(register, kind) is not None or float_of(register) is not None:
        return
    bits = int(re.sub(r"\D", "", kind.partition("x")[0]) or 32)
    floating = kind.startswith(("f", "bf"))
    first = Target(float(number), floating=floating, bits=bits)
    waiting: list[tuple[str, Target, int, bool]] = [(register, first, DEPTH, ordered)]
    found: list[tuple[str, Target, bool]] = []
    while waiting and len(found) < MOST_TARGETS:
        name, target, left, bound = waiting.pop(0)
        found.append((name, target, bound))
        for definition in definitions.get(name, ()) if left else ():
            place = definition.results.index(name) if name in definition.results else 0
            many = len(definition.results)
            for source, before in backwards(
                definition.opcode,
                definition.operands,
                target,
                place if many > 1 else None,
                lambda text: [(d.opcode, d.operands) for d in definitions.get(text, ())],
            ):
                coarse = definition.opcode.startswith(_COARSE)
                waiting.append((source, before, left - 1, bound or coarse))
    for name, target, bound in dict.fromkeys(found):
        if math.isfinite(target.value):
            yield PtxNumber(target, _sources(name, definitions), bound)


def _sources(register: str, definitions: dict[Register, list[_Definition]]) -> frozenset[Source]:
    """Returns what a register was computed from."""
    found, seen, waiting = set[Source](), set[str](), [register]
    while waiting and len(seen) < 4 * MOST_TARGETS:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for definition in definitions.get(name, ()):
            if definition.opcode.startswith("ld.param"):
                found.add("parameter")
            elif definition.opcode.startswith(("ld", "shfl", "atom")):
                found.add("memory")
            else:
                waiting += [part for operand in definition.operands for part in _names(operand)]
        found |= {source for start, source in _SOURCES if name.startswith(start)}
    return frozenset(found or {"other"})


def _table_numbers(ptx: str) -> Iterator[PtxNumber]:
    """Entries of small initialised tables: what a kernel looks up, it may compare with."""
    for kind, text in _TABLE.findall(ptx):
        entries = [entry.strip() for entry in text.split(",") if entry.strip()]
        floating, bits = kind.startswith("f"), int(kind[1:])
        if bits == 8:
            entries, bits = _words(entries), 32
        if len(entries) > TABLE:
            continue
        for entry in entries:
            number = float_of(entry) if floating else integer_of(entry, f"b{bits}")
            if number is not None:
                target = Target(float(number), floating=floating, bits=bits)
                yield PtxNumber(target, frozenset({"other"}), False)


def _words(entries: list[str]) -> list[str]:
    """Bytes as words of 32 bits, of which nvcc writes tables of structs and of unions."""
    if not all(entry.isdecimal() for entry in entries):
        return []
    content = bytes(int(entry) & 255 for entry in entries)
    whole = len(content) // 4 * 4
    return [str(int.from_bytes(content[i : i + 4], "little")) for i in range(0, whole, 4)]
