"""Audits a candidate's PTX: precision, L2 cache policy, registers that the driver fills.

The PTX is what nvcc wrote or inline assembly put there; the machine code in the library was made
from it in the same call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

SOURCE = "kernel.cu"
"""The candidate's file, as a build names it."""
_LOCATION = re.compile(
    r"\.loc\s+(?P<file>\d+)\s+\d+\s+\d+(,\s*function_name\s+\S+(\s*\+\s*\d+)?,\s*inlined_at(\s+\d+){3})?"
)
"""A .loc directive, which ends without a semicolon."""
_PLACE = re.compile(
    r"\s*\.loc\s+(?P<file>\d+)\s+(?P<line>\d+)(?:.*inlined_at\s+(?P<caller>\d+)\s+(?P<at>\d+))?"
)
_STRING_OR_COMMENT = re.compile(r'(?P<string>"[^"\n]*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
"""Strings and comments at once: a string may hold what begins a comment, and a comment a quotation
mark."""
_FUNCTION = re.compile(r"\.(?:entry|func)\b[^{;]*\{?")
_BEFORE = re.compile(r"^(?:\s|[{}]|[\w$%]+:(?!:))*(?:@\s*!?\s*(?P<guard>[\w$%]+)\s+)?")
"""Braces, labels and a guard may stand before an instruction."""
_FIRST = re.compile(r"\s*(\{[^}]*\}|[^,]*)(.*)", re.DOTALL)
_NAME = re.compile(r"[%$A-Za-z_][\w$%]*")

LOW_PRECISION = re.compile(
    r"\b(?P<opcode>(?:mma|wmma|wgmma|tcgen05)\.(?![\w.:]*\.f64\b)[\w.:]*"
    r"|\w[\w.:]*\.(?:f16x2|f16|bf16x2|bf16|tf32|e4m3x2|e5m2x2|e4m3|e5m2|e2m1x2|ue8m0x2)\b[\w.:]*)"
)
TF32 = re.compile(r"\b(?P<opcode>\w[\w.:]*\.tf32[\w.:]*)")
DRIVER_REGISTERS = re.compile(r"%(?:gridid|nsmid|current_graph_exec|envreg\d+)\b")
"""Special registers that are no registers in the machine code: the driver writes them beside the
parameters of a launch. binary_audit.py finds the others."""
SHARED_BY_GRID = re.compile(r"%envreg[012]")
"""Where grid.sync() of cooperative groups finds its barrier."""
_HINTED = re.compile(r"^[\w.:]*\.L2::cache_hint\b")
HARMLESS_PRIORITIES, FRACTION_BITS = (0x10, 0x12, 0x16), 0xF << 52
"""Highest byte of a policy that is evict_normal or evict_first, and where its fraction stands: what
nvcc makes of cuda::access_property, and what CUTLASS writes. 0x14 would be evict_last."""
KEPT_IN_L2 = re.compile(r"\b(?P<opcode>\w[\w.:]*(?<!L1::)evict_last[\w.:]*)")
"""The L1 is of no use to the next call: it keeps nothing of global memory across launches."""

_ATOMIC = re.compile(r"(?<![\w.])(?:atom|red|cp\.reduce\.async\.bulk)\.")
"""An atomic operation; not bar.red, which is a barrier."""
_GLOBAL_ATOMIC = re.compile(
    r"(?<![\w.])(?:(?:atom|red)\.(?![\w.:]*shared)|cp\.reduce\.async\.bulk\.global\b)"
)
"""An atomic operation on global memory, also by a generic address, which need not be one of shared
memory."""

_SUM_BY_ATOMICS = re.compile(
    r"^(?P<opcode>(?:multimem\.)?(?:atom|red|cp\.reduce\.async\.bulk)\.(?=[\w.:]*\.add\b)"
    r"(?=[\w.:]*\.(?:f16|bf16|f32|f64)(?:x2)?\b)[\w.:]*)"
)
"""An atomic operation that adds floating-point numbers."""

Statement = tuple[str, str]
"""The predicate that guards it, or "", and the rest."""


def statements(ptx: str) -> list[str]:
    """Statements in order, without comments, strings, labels and guards; `.func` marks a body."""
    return [text for _, text in _guarded(ptx)]


@lru_cache(maxsize=1)
def _guarded(ptx: str) -> tuple[Statement, ...]:
    """Statements in order, with their guards. Kept: several questions are asked of one
    candidate."""
    return _split(_LOCATION.sub("", _bare(ptx)))


def _split(bare: str) -> tuple[Statement, ...]:
    statements = []
    for statement in _FUNCTION.sub(".func;", bare).split(";"):
        before = _BEFORE.match(statement)
        assert before is not None  # it may match nothing
        statements.append((before["guard"] or "", statement[before.end() :]))
    return tuple(statements)


def _bare(ptx: str) -> str:
    """The text without comments and what stands in strings; lines stay where they are."""

    def replaced(match: re.Match[str]) -> str:
        return '""' if match["string"] else " " + "\n" * match[0].count("\n")

    return _STRING_OR_COMMENT.sub(replaced, ptx)


def tensor_or_low_precision(ptx: str) -> str | None:
    """An instruction that computes below float32, or on tensor cores but for doubles; None if there
    is none."""
    return _first(LOW_PRECISION, ptx)


def tf32(ptx: str) -> str | None:
    """An instruction with a TensorFloat-32 operand: ten bits of a float's 23."""
    return _first(TF32, ptx)


def float_sum_by_atomics(ptx: str) -> str | None:
    """An instruction that adds a floating-point number to memory in whatever order threads come;
    None if there is none."""
    return _first(_SUM_BY_ATOMICS, ptx)


def kept_in_l2(ptx: str) -> str | None:
    """An instruction that asks the L2 cache to keep lines for later, so for the next call too.

    It does so by name, or by a policy that is none of createpolicy's and none of the numbers that
    are known to keep nothing: a policy is a number, and who writes it himself need not name what it
    asks for.
    """
    return _first(KEPT_IN_L2, ptx) or next(
        filter(None, map(_odd_policy, _bodies(_guarded(ptx)))), None
    )


def _odd_policy(body: list[Statement]) -> str | None:
    """An instruction of this function whose cache policy comes from elsewhere."""
    hinted = [text for _, text in body if _HINTED.search(text)]
    sources: dict[str, list[str]] = {}
    for _, text in body if hinted else ():
        if not text.startswith("."):
            for name in _NAME.findall(_first_operand(text)[0]):
                sources.setdefault(name, []).append(text)
    harmless: set[str] = set()
    for text in hinted:
        if not _policies_only(text.split(",")[-1].strip(), sources, harmless):
            return text.split()[0]
    return None


def _policies_only(word: str, sources: Mapping[str, list[str]], harmless: set[str]) -> bool:
    """Whether it is a harmless policy's number, or a register that holds nothing but policies.

    `harmless`: what is known to be so, and what is found to be.
    """
    waiting, seen = [word], {word}
    while waiting:
        word = waiting.pop()
        if word[:1].isdigit():
            if not _keeps_nothing(word):
                return False
        elif word not in harmless:
            made = [_chosen_from(text) for text in sources.get(word, [""])]
            if None in made:
                return False
            new = {other for chosen in made for other in chosen or ()} - seen
            seen |= new
            waiting += new
    harmless |= seen
    return True


def _keeps_nothing(word: str) -> bool:
    """Whether a policy written as a number, in decimal or hexadecimal digits, keeps nothing in
    L2."""
    try:
        number = int(word.rstrip("U"), 0)
    except ValueError:
        return False
    return number >> 56 in HARMLESS_PRIORITIES and not number & ~FRACTION_BITS & (1 << 56) - 1


def _chosen_from(text: str) -> list[str] | None:
    """What an instruction that makes a policy takes it from; None for any other instruction."""
    if text.startswith("createpolicy."):
        return []
    _, *operands = (operand.strip() for operand in _operands(text).split(","))
    if text.startswith("mov."):
        return operands[:1]
    return operands[:2] if text.startswith("selp.") else None


def refused_registers(ptx: str, *, grid_sync: bool) -> list[tuple[str, int]]:
    """Registers of the driver's that a candidate reads, and a line of its source for each.

    `grid_sync`: whether %envreg1 and %envreg2 do no more than grid.sync() of cooperative groups
    needs (register_flow.py). Lines and files decide nothing: they are only told.
    """
    own = set(re.findall(rf'\.file\s+(\d+)\s+"(?:[^"\n]*/)?{re.escape(SOURCE)}"', ptx))
    found: dict[str, int] = {}
    file, line = "", 1
    for text in _bare(ptx).splitlines():
        if place := _PLACE.match(text):
            file = place["file"]
            called = place["caller"] in own
            line = int(place["line"]) if file in own else int(place["at"]) if called else line
        for name in DRIVER_REGISTERS.findall(text):
            if not (grid_sync and SHARED_BY_GRID.fullmatch(name)):
                found.setdefault(name, line)
    return list(found.items())


def waiting_kernels(ptx: str) -> frozenset[str]:
    """Kernels that wait for the work ahead of them, launched programmatically, somewhere; all of
    them where a function does that they may call."""
    return _kernels_with(re.compile(r"griddepcontrol\.wait"), ptx)


def has_atomics(ptx: str) -> bool:
    """Whether any function has an atomic operation, be it on global or shared memory."""
    return any(_ATOMIC.search(body) for _, body in _functions(ptx))


def kernels_with_global_atomics(ptx: str) -> frozenset[str]:
    """Kernels whose blocks may change one another's results: they add to global memory or count in
    it; all of them where a function does that they may call."""
    return _kernels_with(_GLOBAL_ATOMIC, ptx)


def bodies(ptx: str) -> list[str]:
    """Text of each function and of its parameters, without comments, strings and line numbers."""
    return [_LOCATION.sub("", body) for _, body in _functions(ptx)]


def kernel_bodies(ptx: str) -> dict[str, list[str]]:
    """Statements of each kernel in the order of the text, by its mangled name."""
    found = {}
    for head, body in _functions(ptx):
        if head != ".func":
            parts = _split(_LOCATION.sub("", body.partition("{")[2]))
            found[head.split()[1]] = [text for _, text in parts]
    return found


def _kernels_with(pattern: re.Pattern[str], ptx: str) -> frozenset[str]:
    """Kernels in whose body this stands; all of them where it stands in a function."""
    bodies = _functions(ptx)
    found = [head for head, body in bodies if pattern.search(body)]
    some = [head for head, _ in bodies] if ".func" in found else found
    return frozenset(head.split()[1] for head in some if head != ".func")


@lru_cache(maxsize=1)
def _functions(ptx: str) -> tuple[tuple[str, str], ...]:
    """Head and body of each function. Kept: several questions are asked of one candidate."""
    parts = re.split(r"(\.entry\s+[\w$%]+|\.func\b)", _bare(ptx))
    return tuple(zip(parts[1::2], parts[2::2], strict=True))


def _first(pattern: re.Pattern[str], ptx: str) -> str | None:
    for statement in statements(ptx):
        if match := pattern.search(statement):
            return match["opcode"].rstrip(".:")
    return None


def _bodies(statements: Sequence[Statement]) -> Iterator[list[Statement]]:
    """The statements of each function."""
    body: list[Statement] = []
    for statement in statements:
        if statement[1].endswith(".func"):
            yield body
            body = []
        else:
            body.append(statement)
    yield body


def _operands(statement: str) -> str:
    """What stands after the opcode."""
    return statement.partition(" ")[2] or statement.partition("\t")[2]


def _first_operand(statement: str) -> tuple[str, str]:
    """The first operand, which may stand in braces, and the others."""
    match = _FIRST.match(_operands(statement))
    return (match[1], match[2]) if match else ("", "")
