"""What the PTX of a candidate says about itself: variables that persist, precision, cache policy.

Text that nvcc wrote or that inline assembly put there; what is embedded in the library was made
from it in the same call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_LOCATION = re.compile(
    r"\.loc\s+\d+\s+\d+\s+\d+(,\s*function_name\s+\S+(\s*\+\s*\d+)?,\s*inlined_at(\s+\d+){3})?"
)
"""Ends without a semicolon."""
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"[^"]*"')
_FUNCTION = re.compile(r"\.(?:entry|func)\b[^{;]*\{?")
_BEFORE = re.compile(r"^(?:\s|[{}]|[\w$]+:(?!:))*(?:@!?%?\w+\s+)?")
"""Braces, labels and a guard may stand before an instruction."""
_WRITES = re.compile(r"^(st|atom|red|multimem|cp|stmatrix|cachepolicy)\b")
_FIRST = re.compile(r"\s*(\{[^}]*\}|[^,]*)(.*)", re.DOTALL)
_TO_PARAMETER = re.compile(r"^st\.param\b")
_NAME = re.compile(r"[%$A-Za-z_][\w$%]*")

LOW_PRECISION = re.compile(
    r"\b(?P<opcode>(?:mma|wmma|wgmma|tcgen05)\.[\w.:]*"
    r"|\w[\w.:]*\.(?:f16x2|f16|bf16x2|bf16|tf32|e4m3x2|e5m2x2|e4m3|e5m2|e2m1x2|ue8m0x2)\b[\w.:]*)"
)
TF32 = re.compile(r"\b(?P<opcode>\w[\w.:]*\.tf32[\w.:]*)")
CLOCK = re.compile(r"(?P<opcode>%clock(?:64|_hi)?)\b")
TIMER = re.compile(r"(?P<opcode>%globaltimer(?:_lo|_hi)?)\b")
KEPT_IN_L2 = re.compile(r"\b(?P<opcode>\w[\w.:]*evict_last[\w.:]*)")


def statements(ptx: str) -> list[str]:
    """Statements in order, without comments, strings, labels and guards; `.func` marks a body."""
    text = _LOCATION.sub("", _STRING.sub('""', _COMMENT.sub("", ptx)))
    marked = _FUNCTION.sub(".func;", text)
    return [_BEFORE.sub("", statement) for statement in marked.split(";")]


def tensor_or_low_precision(ptx: str) -> str | None:
    """An instruction that computes below float32, or on tensor cores; None if there is none."""
    return _first(LOW_PRECISION, ptx)


def tf32(ptx: str) -> str | None:
    """An instruction with a TensorFloat-32 operand: ten bits of a float's 23."""
    return _first(TF32, ptx)


def kept_in_l2(ptx: str) -> str | None:
    """An instruction that asks the L2 cache to keep lines for later, so for the next call too."""
    return _first(KEPT_IN_L2, ptx)


def clock(ptx: str, *, timer: bool) -> str | None:
    """A register that tells the time; with `timer` the global timer counts as one, too."""
    return _first(CLOCK, ptx) or (_first(TIMER, ptx) if timer else None)


def written_globals(ptx: str, names: frozenset[str]) -> list[str]:
    """Which of these variables of global memory some instruction may write.

    An address is followed through registers: any register that an instruction makes from it counts
    as one; a call may write what it is given unless it is printf or assert, and whatever another
    variable starts with the address of may be written through that.
    """
    found: set[str] = set()
    for body in _bodies(statements(ptx)):
        for declaration in (s for s in body if s.startswith(".") and "=" in s):
            found |= names & set(_NAME.findall(declaration.partition("=")[2]))
        holds: dict[str, frozenset[str]] = {}
        while _spread(body, holds, names):
            pass
        found |= {name for statement in body for name in _written(statement, holds, names)}
    return sorted(found)


def _first(pattern: re.Pattern[str], ptx: str) -> str | None:
    for statement in statements(ptx):
        if match := pattern.search(statement):
            return match["opcode"].rstrip(".:")
    return None


def _bodies(found: list[str]) -> Iterator[list[str]]:
    """The statements of each function."""
    body: list[str] = []
    for statement in found:
        if statement.endswith(".func"):
            yield body
            body = []
        else:
            body.append(statement)
    yield body


def _spread(body: list[str], holds: dict[str, frozenset[str]], names: frozenset[str]) -> bool:
    """One pass: what an instruction reads reaches its first operand. Whether anything was new."""
    changed = False
    for statement in body:
        other = statement.startswith((".", "ld", "call")) or _WRITES.match(statement)
        if other and not _TO_PARAMETER.match(statement):
            continue
        first, rest = _first_operand(statement)
        words = _NAME.findall(rest)
        carried = frozenset[str]().union(*(_of(word, holds, names) for word in words))
        for target in _NAME.findall(first):
            if not carried <= holds.get(target, frozenset()):
                holds[target] = holds.get(target, frozenset()) | carried
                changed = True
    return changed


def _written(
    statement: str, holds: Mapping[str, frozenset[str]], names: frozenset[str]
) -> frozenset[str]:
    if statement.startswith("call"):
        if re.search(r"\b(vprintf|__assertfail)\b", statement):
            return frozenset()
        return frozenset[str]().union(
            *(_of(w, holds, names) for w in _NAME.findall(_operands(statement)))
        )
    if not _WRITES.match(statement) or _TO_PARAMETER.match(statement):
        return frozenset()
    addresses = " ".join(re.findall(r"\[([^\]]*)\]", statement)[:1])
    stored = statement.split("]", 1)[-1] if statement.startswith("st") else ""
    words = _NAME.findall(addresses) + _NAME.findall(stored)
    return frozenset[str]().union(*(_of(word, holds, names) for word in words))


def _operands(statement: str) -> str:
    """What stands after the opcode."""
    return statement.partition(" ")[2] or statement.partition("\t")[2]


def _first_operand(statement: str) -> tuple[str, str]:
    """The first operand, which may stand in braces, and the others."""
    found = _FIRST.match(_operands(statement))
    return (found[1], found[2]) if found else ("", "")


def _of(word: str, holds: Mapping[str, frozenset[str]], names: frozenset[str]) -> frozenset[str]:
    return frozenset({word}) if word in names else holds.get(word, frozenset())
