"""Directives of functions and kernels: linkage (`.visible`) and limits (`.maxntid 512, 1, 1`)."""

from __future__ import annotations

from astra_vgpu.ptx.cursor import Cursor

_LINKING = frozenset({".visible", ".weak", ".extern", ".common"})
_MAX_NUMBERS = {
    "maxntid": 3,
    "reqntid": 3,
    "minnctapersm": 1,
    "maxnreg": 1,
    "reqnctapercluster": 3,
    "maxclusterrank": 1,
    "explicitcluster": 0,
    "blocksareclusters": 0,
}
"""Most numbers behind each directive of a kernel."""
_MOST = 1 << 31


def linkage(cursor: Cursor) -> str:
    """.visible, .extern and their like; empty without."""
    return cursor.next().text if cursor.peek.text in _LINKING else ""


def kernel_directives(cursor: Cursor, *, entry: bool) -> dict[str, tuple[int, ...]]:
    """.maxntid 512, 1, 1 and its like, up to the body; of a function only .noreturn.

    Raises PtxSyntaxError for unknown ones and for numbers that ptxas does not take.
    """
    directives: dict[str, tuple[int, ...]] = {}
    while cursor.peek.kind == "directive":
        token = cursor.next()
        name = token.text[1:]
        if name == "pragma":
            cursor.strings()
        elif name == "noreturn" and not entry:
            directives[name] = ()
        elif entry and name in _MAX_NUMBERS:
            directives[name] = _numbers(cursor, name)
        else:
            raise cursor.error(f"unexpected {token.text!r} before a body", token)
    if {"maxntid", "reqntid"} <= set(directives):
        raise cursor.error(".maxntid and .reqntid are both given")
    if "blocksareclusters" in directives and not {"reqntid", "reqnctapercluster"} <= set(
        directives
    ):
        raise cursor.error(".blocksareclusters requires .reqntid and .reqnctapercluster")
    return directives


def _numbers(cursor: Cursor, name: str) -> tuple[int, ...]:
    most = _MAX_NUMBERS[name]
    if not most:
        return ()
    numbers = [cursor.natural()]
    while len(numbers) < most and cursor.accept(","):
        numbers.append(cursor.natural())
    if not all(0 < number < _MOST for number in numbers):
        raise cursor.error(f".{name} {', '.join(map(str, numbers))}")
    return tuple(numbers)
