"""Whether any legal case reaches a place in a source: a probe that stops there is run as a mutant.

A fault in code that no case can reach, such as the branch of a dtype that the contract does not
list, tells nothing of the cases.
"""

from __future__ import annotations

from collections.abc import Iterator

from astra_chat.tools.mutation.operators import EditableCode

STOP = "assert(0);"
"""On host and device alike; <cassert> declares it."""
HEADER = "#include <cassert>\n"
_BEFORE_BLOCK = (")", "else", "do", "try", ";", "{", "}", ":", "]", "const", "noexcept", "mutable")


def probe(source: str, changed: str) -> str | None:
    """The source with a stop at the start of the innermost block that a change stands in; None
    where it stands in none. A statement without braces counts as the block around it."""
    pairs = enumerate(zip(source, changed, strict=False))
    place = next((at for at, (a, b) in pairs if a != b), min(len(source), len(changed)))
    code = EditableCode(source)
    inner = next(_blocks(code, place), None)
    if inner is None:
        return None
    at = code.end(inner)
    return f"{HEADER}{source[:at]} {STOP}{source[at:]}"


def _blocks(code: EditableCode, place: int) -> Iterator[int]:
    """Tokens behind which a statement may stand, of the blocks around a place, innermost first: the
    opening brace, or the last label of a switch."""
    index = next((at for at, token in enumerate(code) if token.at >= place), len(code))
    while (index := code.around(index)) >= 0:
        if code.text(code.opening(index - 1) - 1) == "switch":
            if (label := _last_label(code, index, place)) is not None:
                yield label
        elif code.text(index) == "{" and code.text(index - 1) in _BEFORE_BLOCK:
            yield index


def _last_label(code: EditableCode, index: int, place: int) -> int | None:
    """The colon of the last case of a switch before a place."""
    found, in_label = None, False
    for at in range(index + 1, len(code)):
        if code.start(at) >= place:
            break
        if code.around(at) == index:
            in_label = in_label or code.text(at) in ("case", "default")
            if in_label and code.text(at) == ":":
                found, in_label = at, False
    return found
