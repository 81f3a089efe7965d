"""Whether any legal case reaches a place in a source: a probe that stops there is run as a mutant.

A fault in code that no case can reach, such as the branch of a dtype that the contract does not
list, tells nothing of the cases.
"""

from __future__ import annotations

from collections.abc import Iterator

from astra_chat.tools.mutation.operators import Code

STOP = "assert(0);"
"""On host and device alike; <cassert> declares it."""
HEADER = "#include <cassert>\n"
_BEFORE_BLOCK = (")", "else", "do", "try", ";", "{", "}", ":", "]", "const", "noexcept", "mutable")


def probe(source: str, changed: str) -> str | None:
    """The source with a stop at the start of the innermost block that a change stands in; None
    where it stands in none. A statement without braces counts as the block around it."""
    pairs = enumerate(zip(source, changed, strict=False))
    place = next((at for at, (a, b) in pairs if a != b), min(len(source), len(changed)))
    code = Code(source)
    inner = next(_blocks(code, place), None)
    if inner is None:
        return None
    at = code.end(inner)
    return f"{HEADER}{source[:at]} {STOP}{source[at:]}"


def _blocks(code: Code, place: int) -> Iterator[int]:
    """Tokens behind which a statement may stand, of the blocks around a place, innermost first: the
    opening brace, or the last label of a switch."""
    opened: list[int] = []
    for index, token in enumerate(code.tokens):
        if token.at >= place:
            break
        if token.text == "{":
            opened.append(index)
        elif token.text == "}" and opened:
            opened.pop()
    for index in reversed(opened):
        if _is_switch(code, index):
            if (label := _last_label(code, index, place)) is not None:
                yield label
        elif code.text(index - 1) in _BEFORE_BLOCK:
            yield index


def _is_switch(code: Code, index: int) -> bool:
    """Whether the block belongs to `switch (...)`."""
    depth = 0
    for at in range(index - 1, -1, -1):
        depth += (code.text(at) == ")") - (code.text(at) == "(")
        if depth == 0:
            return code.text(at - 1) == "switch"
    return False


def _last_label(code: Code, index: int, place: int) -> int | None:
    """The colon of the last case of a switch before a place."""
    found, depth = None, 0
    in_label = False
    for at in range(index + 1, len(code.tokens)):
        if code.start(at) >= place:
            break
        text = code.text(at)
        depth += text in ("{", "(", "[")
        depth -= text in ("}", ")", "]")
        in_label = in_label or (depth == 0 and text in ("case", "default"))
        if in_label and depth == 0 and text == ":":
            found, in_label = at, False
    return found
