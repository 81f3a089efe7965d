"""Audits a candidate's PTX: variables that persist between calls, precision, L2 cache policy.

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
_STRING_LITERAL = re.compile(r"\$str(\$\d+)?|__unnamed_\d+")
"""What nvcc calls the strings of a kernel, __func__ among them."""
_LOCAL, _LOCAL_LOAD = "<local>", re.compile(r"^ld(?!\S*\.(?:global|shared|const|param)\b)[\w.:]*\s")
_LOCAL_STORE = re.compile(r"^st\S*\.local\b")
_TOLD = re.compile(r"\b(vprintf|__assertfail)\b")
"""Calls that write nothing."""
_RETURNED = re.compile(r"func_retval\d+")
"""What nvcc calls the value that a function gives back."""
_CALL_GIVES = re.compile(r"^call\S*\s*\(([^)]*)\)\s*,")

LOW_PRECISION = re.compile(
    r"\b(?P<opcode>(?:mma|wmma|wgmma|tcgen05)\.[\w.:]*"
    r"|\w[\w.:]*\.(?:f16x2|f16|bf16x2|bf16|tf32|e4m3x2|e5m2x2|e4m3|e5m2|e2m1x2|ue8m0x2)\b[\w.:]*)"
)
TF32 = re.compile(r"\b(?P<opcode>\w[\w.:]*\.tf32[\w.:]*)")
CLOCK = re.compile(r"(?P<opcode>%clock(?:64|_hi)?)\b")
TIMER = re.compile(r"(?P<opcode>%globaltimer(?:_lo|_hi)?)\b")
_LENT = re.compile(r"%envreg\d+\b")
LAUNCH_NUMBER = re.compile(r"(?P<opcode>%(?:gridid|current_graph_exec|pm\d+(?:_64)?))\b")
_HINTED = re.compile(r"^[\w.:]*\.L2::cache_hint\b")
HARMLESS_PRIORITIES, FRACTION_BITS = (0x10, 0x12, 0x16), 0xF << 52
"""Highest byte of a policy that is evict_normal or evict_first, and where its fraction stands: what
nvcc makes of cuda::access_property, and what CUTLASS writes. 0x14 would be evict_last."""
KEPT_IN_L2 = re.compile(r"\b(?P<opcode>\w[\w.:]*evict_last[\w.:]*)")


Statement = tuple[str, str]
"""The predicate that guards it, or "", and the rest."""


def statements(ptx: str) -> list[str]:
    """Statements in order, without comments, strings, labels and guards; `.func` marks a body."""
    return [text for _, text in _guarded(ptx)]


@lru_cache(maxsize=1)
def _guarded(ptx: str) -> tuple[Statement, ...]:
    """Kept: several questions are asked of one candidate."""
    return _split(_LOCATION.sub("", _bare(ptx)))


def _split(bare: str) -> tuple[Statement, ...]:
    statements = []
    for statement in _FUNCTION.sub(".func;", bare).split(";"):
        before = _BEFORE.match(statement)
        assert before is not None  # it may match nothing
        statements.append((before["guard"] or "", statement[before.end() :]))
    return tuple(statements)


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
    """An instruction that asks the L2 cache to keep lines for later, so for the next call too.

    By name, or by a policy that is none of createpolicy's and none of the numbers that are known to
    keep nothing: a policy is a number, and who writes it himself need not name what it asks for.
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
    """Of a policy written as a number, in decimal or hexadecimal digits."""
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


def launch_number(ptx: str) -> str | None:
    """A register by which a kernel tells one launch, or one graph, from another."""
    return _first(LAUNCH_NUMBER, ptx)


def clock(ptx: str, *, timer: bool) -> str | None:
    """A register that tells the time. Without `timer`, the global timer counts as one only where
    the candidate's own lines read it: headers of the toolkit read it while they wait."""
    return _first(CLOCK, ptx) or (_first(TIMER, ptx) if timer else _own_timer(ptx))


def _own_timer(ptx: str) -> str | None:
    own, at = _own_files(ptx), ""
    for line in _bare(ptx).splitlines():
        if place := re.search(r"\.loc\s+(\d+)", line):
            at = place[1]
        if (match := TIMER.search(line)) and at in own:
            return match["opcode"]
    return None


def _own_files(ptx: str) -> set[str]:
    """The numbers under which its lines name the candidate's own file."""
    return set(re.findall(rf'\.file\s+(\d+)\s+"(?:[^"\n]*/)?{re.escape(SOURCE)}"', ptx))


def written_globals(ptx: str, names: frozenset[str]) -> list[str]:
    """Which of these variables of global memory some instruction may write.

    An address is followed through registers: any register that an instruction makes from it counts
    as one, and so does one that is set or not as the address has it; a call may write what it is
    given unless it is printf or assert, and gives back what any function of this text gives back; a
    branch that hangs on an address may do anything, and whatever another variable starts with the
    address of may be written through that. The address of
    a string literal may lie in local memory, as printf's arguments do: whatever is loaded from
    there counts as one.
    """
    if not names:
        return []
    written: set[str] = set()
    bodies = list(_bodies(_guarded(ptx)))
    for body, holds in zip(bodies, _held_by_all(bodies, names), strict=True):
        for declaration in (s for _, s in body if s.startswith(".") and "=" in s):
            written |= names & set(_NAME.findall(declaration.partition("=")[2]))
        written |= {name for guard, text in body for name in _written(guard, text, holds, names)}
    return sorted(written)


def lent_memory(ptx: str) -> str | None:
    """An instruction of the candidate's own lines that writes where %envreg leads: to memory that
    the driver lends for grid.sync(), and keeps."""
    own, own_files = _own_files(ptx), None
    marked = _LOCATION.sub(lambda m: f".loc{int(m['file'] in own)};", _bare(ptx))
    names = frozenset(_LENT.findall(marked))
    for body in _bodies(_split(marked)) if names else ():
        holds, at = _held(body, names, frozenset()), False
        for guard, text in body:
            at = text.endswith("1") if text.startswith(".loc") else at
            if at and _written(guard, text, holds, names):
                own_files = own_files or text.split()[0]
    return own_files


def waiting_kernels(ptx: str) -> frozenset[str]:
    """Kernels that wait for the work ahead of them, launched programmatically, somewhere; all of
    them where a function does that they may call."""
    parts = re.split(r"(\.entry\s+[\w$%]+|\.func\b)", _bare(ptx))
    bodies = list(zip(parts[1::2], parts[2::2], strict=True))
    waiting = [head for head, body in bodies if "griddepcontrol.wait" in body]
    some = [head for head, _ in bodies] if ".func" in waiting else waiting
    return frozenset(head.split()[1] for head in some if head != ".func")


Held = dict[str, frozenset[str]]


def _held_by_all(bodies: Sequence[list[Statement]], names: frozenset[str]) -> list[Held]:
    """Of each function, whose addresses its registers may have to do with; what one function gives
    back, a call of any may give."""
    given = frozenset[str]()
    while True:
        held = [_held(body, names, given) for body in bodies]
        returned = (h[word] for h in held for word in h if _RETURNED.fullmatch(word))
        if (now := given.union(*returned)) == given:
            return held
        given = now


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


def _held(body: list[Statement], names: frozenset[str], given: frozenset[str]) -> Held:
    """Whose address a register may have to do with: what an instruction reads reaches its first
    operand. From name to name, each as often as it learns something: a body may be long.

    `given`: what any call may give back."""
    readers: dict[str, list[str]] = {}
    holds: Held = {}
    for guard, statement in body:
        if given and (call := _CALL_GIVES.match(statement)):
            holds |= dict.fromkeys(_NAME.findall(call[1]), given)
        if _LOCAL_LOAD.match(statement):
            readers.setdefault(_LOCAL, []).extend(_NAME.findall(_first_operand(statement)[0]))
            continue
        local = _LOCAL_STORE.match(statement)
        loaded = statement.startswith("ld") and not statement.startswith("ld.param")
        other = loaded or statement.startswith((".", "call")) or _WRITES.match(statement)
        if other and not (local or _TO_PARAMETER.match(statement)):
            continue
        first, rest = _first_operand(statement)
        targets = [_LOCAL] if local else _NAME.findall(first)
        for word in (*_NAME.findall(rest), guard):
            readers.setdefault(word, []).extend(targets)
    waiting = [name for name in (*names, *holds) if name in readers]
    while waiting:
        word = waiting.pop()
        carried = _of(word, holds, names)
        for target in readers.get(word, ()):
            if not carried <= holds.get(target, frozenset()):
                holds[target] = holds.get(target, frozenset()) | carried
                if target not in names:
                    waiting.append(target)
    return holds


def _written(
    guard: str, statement: str, holds: Mapping[str, frozenset[str]], names: frozenset[str]
) -> frozenset[str]:
    tokens: list[str] = []
    if _JUMPS.match(statement):
        tokens = [guard]
        if not _TOLD.search(statement):
            tokens += _NAME.findall(_operands(_CALL_GIVES.sub("call ", statement)))
            tokens += [_LOCAL] if statement.startswith("call") else []
    elif _LOCAL_STORE.match(statement):
        held = frozenset[str]().union(*(_of(w, holds, names) for w in _NAME.findall(statement)))
        return frozenset(name for name in held if not _STRING_LITERAL.fullmatch(name))
    elif _WRITES.match(statement) and not _TO_PARAMETER.match(statement):
        tokens = _NAME.findall(" ".join(re.findall(r"\[([^\]]*)\]", statement)[:1]))
        if not _COPIES.match(statement):
            tokens += _NAME.findall(statement.split("]", 1)[-1])
    return frozenset[str]().union(*(_of(word, holds, names) for word in tokens))


def _operands(statement: str) -> str:
    """What stands after the opcode."""
    return statement.partition(" ")[2] or statement.partition("\t")[2]


def _first_operand(statement: str) -> tuple[str, str]:
    """The first operand, which may stand in braces, and the others."""
    match = _FIRST.match(_operands(statement))
    return (match[1], match[2]) if match else ("", "")


def _of(word: str, holds: Mapping[str, frozenset[str]], names: frozenset[str]) -> frozenset[str]:
    return frozenset({word}) if word in names else holds.get(word, frozenset())
