"""What the PTX of a candidate says about itself: variables that persist, precision, cache policy.

Text that nvcc wrote or that inline assembly put there; what is embedded in the library was made
from it in the same call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

SOURCE = "kernel.cu"
"""The candidate's file, as a build names it."""
_LOCATION = re.compile(
    r"\.loc\s+\d+\s+\d+\s+\d+(,\s*function_name\s+\S+(\s*\+\s*\d+)?,\s*inlined_at(\s+\d+){3})?"
)
"""Ends without a semicolon."""
_STRING_OR_COMMENT = re.compile(r'(?P<string>"[^"\n]*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
"""Both at once: a string may hold what begins a comment, and a comment a quotation mark."""
_FUNCTION = re.compile(r"\.(?:entry|func)\b[^{;]*\{?")
_BEFORE = re.compile(r"^(?:\s|[{}]|[\w$%]+:(?!:))*(?:@\s*!?\s*(?P<guard>[\w$%]+)\s+)?")
"""Braces, labels and a guard may stand before an instruction."""
_WRITES = re.compile(
    r"^(st|atom|red|multimem|cp|stmatrix|cachepolicy|tensormap|sust|sured|mbarrier|tcgen05"
    r"|discard|applypriority)\b"
)
_COPIES = re.compile(r"^cp\b")
"""What these write comes from memory: their other operands are addresses to read."""
_JUMPS = re.compile(r"^(bra|brx|call|ret|exit)\b")
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
LAUNCH_NUMBER = re.compile(r"(?P<opcode>%(?:gridid|current_graph_exec|pm\d+(?:_64)?))\b")
KEPT_IN_L2 = re.compile(r"\b(?P<opcode>\w[\w.:]*evict_last[\w.:]*)")


Statement = tuple[str, str]
"""The predicate that guards it, or "", and the rest."""


def statements(ptx: str) -> list[str]:
    """Statements in order, without comments, strings, labels and guards; `.func` marks a body."""
    return [text for _, text in _guarded(ptx)]


@lru_cache(maxsize=1)
def _guarded(ptx: str) -> tuple[Statement, ...]:
    """Kept: several questions are asked of one candidate."""
    marked = _FUNCTION.sub(".func;", _LOCATION.sub("", _bare(ptx)))
    found = []
    for statement in marked.split(";"):
        before = _BEFORE.match(statement)
        assert before is not None  # it may match nothing
        found.append((before["guard"] or "", statement[before.end() :]))
    return tuple(found)


def _bare(ptx: str) -> str:
    """Without comments and what stands in strings; lines stay where they are."""

    def replaced(match: re.Match[str]) -> str:
        return '""' if match["string"] else " " + "\n" * match[0].count("\n")

    return _STRING_OR_COMMENT.sub(replaced, ptx)


def tensor_or_low_precision(ptx: str) -> str | None:
    """An instruction that computes below float32, or on tensor cores; None if there is none."""
    return _first(LOW_PRECISION, ptx)


def tf32(ptx: str) -> str | None:
    """An instruction with a TensorFloat-32 operand: ten bits of a float's 23."""
    return _first(TF32, ptx)


def kept_in_l2(ptx: str) -> str | None:
    """An instruction that asks the L2 cache to keep lines for later, so for the next call too."""
    return _first(KEPT_IN_L2, ptx)


def launch_number(ptx: str) -> str | None:
    """A register by which a kernel tells one launch, or one graph, from another."""
    return _first(LAUNCH_NUMBER, ptx)


def clock(ptx: str, *, timer: bool) -> str | None:
    """A register that tells the time. Without `timer`, the global timer counts as one only where
    the candidate's own lines read it: headers of the toolkit read it while they wait."""
    return _first(CLOCK, ptx) or (_first(TIMER, ptx) if timer else _own_timer(ptx))


def _own_timer(ptx: str) -> str | None:
    own = set(re.findall(rf'\.file\s+(\d+)\s+"(?:[^"\n]*/)?{re.escape(SOURCE)}"', ptx))
    at = ""
    for line in _bare(ptx).splitlines():
        if place := re.search(r"\.loc\s+(\d+)", line):
            at = place[1]
        if (found := TIMER.search(line)) and at in own:
            return found["opcode"]
    return None


def written_globals(ptx: str, names: frozenset[str]) -> list[str]:
    """Which of these variables of global memory some instruction may write.

    An address is followed through registers: any register that an instruction makes from it counts
    as one, and so does one that is set or not as the address has it; a call may write what it is
    given unless it is printf or assert, a branch that hangs on an address may do anything, and
    whatever another variable starts with the address of may be written through that.
    """
    if not names:
        return []
    found: set[str] = set()
    for body in _bodies(_guarded(ptx)):
        for declaration in (s for _, s in body if s.startswith(".") and "=" in s):
            found |= names & set(_NAME.findall(declaration.partition("=")[2]))
        holds: dict[str, frozenset[str]] = {}
        while _spread(body, holds, names):
            pass
        found |= {name for guard, text in body for name in _written(guard, text, holds, names)}
    return sorted(found)


def _first(pattern: re.Pattern[str], ptx: str) -> str | None:
    for statement in statements(ptx):
        if match := pattern.search(statement):
            return match["opcode"].rstrip(".:")
    return None


def _bodies(found: Sequence[Statement]) -> Iterator[list[Statement]]:
    """The statements of each function."""
    body: list[Statement] = []
    for statement in found:
        if statement[1].endswith(".func"):
            yield body
            body = []
        else:
            body.append(statement)
    yield body


def _spread(body: list[Statement], holds: dict[str, frozenset[str]], names: frozenset[str]) -> bool:
    """One pass: what an instruction reads reaches its first operand. Whether anything was new."""
    changed = False
    for guard, statement in body:
        other = statement.startswith((".", "ld", "call")) or _WRITES.match(statement)
        if other and not _TO_PARAMETER.match(statement):
            continue
        first, rest = _first_operand(statement)
        words = (*_NAME.findall(rest), guard)
        carried = frozenset[str]().union(*(_of(word, holds, names) for word in words))
        for target in _NAME.findall(first):
            if not carried <= holds.get(target, frozenset()):
                holds[target] = holds.get(target, frozenset()) | carried
                changed = True
    return changed


def _written(
    guard: str, statement: str, holds: Mapping[str, frozenset[str]], names: frozenset[str]
) -> frozenset[str]:
    words: list[str] = []
    if _JUMPS.match(statement):
        words = [guard]
        if not re.search(r"\b(vprintf|__assertfail)\b", statement):
            words += _NAME.findall(_operands(statement))
    elif _WRITES.match(statement) and not _TO_PARAMETER.match(statement):
        words = _NAME.findall(" ".join(re.findall(r"\[([^\]]*)\]", statement)[:1]))
        if not _COPIES.match(statement):
            words += _NAME.findall(statement.split("]", 1)[-1])
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
