"""Header of a PTX text: .version, .target, .address_size."""

from __future__ import annotations

import re

from astra_vgpu.ptx.cursor import Cursor

_VERSIONS = frozenset(
    "1.0 1.1 1.2 1.3 1.4 1.5 2.0 2.1 2.2 2.3 3.0 3.1 3.2 4.0 4.1 4.2 4.3 5.0 6.0 6.1 6.2 6.3 6.4"
    " 6.5 7.0 7.1 7.2 7.3 7.4 7.5 7.6 7.7 7.8 8.0 8.1 8.2 8.3 8.4 8.5 8.6 8.7 8.8".split()
)
"""Before 9.0, the newest that was tried; of newer ones what is known here runs."""
_OLDEST_WITH_ADDRESS_SIZE = (2, 3)
_SINCE = {
    "50": (4, 0), "52": (4, 1), "53": (4, 2), "60": (5, 0), "61": (5, 0), "62": (5, 0),
    "70": (6, 0), "72": (6, 1), "75": (6, 3), "80": (7, 0), "86": (7, 1), "87": (7, 4),
    "88": (9, 0), "89": (7, 8), "90": (7, 8), "90a": (8, 0),
}  # fmt: skip
"""First PTX version, (major, minor), that has each target."""
_LATER_TARGET = re.compile(r"1\d\d[af]?")
_OPTIONS = frozenset({"texmode_unified", "texmode_independent", "debug", "map_f64_to_f32"})


def head(cursor: Cursor) -> tuple[str, frozenset[str]]:
    """.version 9.0 .target sm_90 .address_size 64: the target, and its options.

    Raises PtxSyntaxError for an unknown version or target, and for addresses of 32 bits.
    """
    if not cursor.accept(".version"):
        raise cursor.error("PTX must begin with .version")
    token = cursor.next()
    major, _, minor = token.text.partition(".")
    if not re.fullmatch(r"\d+\.\d", token.text) or (int(major) < 9 and token.text not in _VERSIONS):
        raise cursor.error(f"{token.text!r} is not a version", token)
    version = (int(major), int(minor))
    cursor.expect(".target")
    target, options = _target(cursor, version)
    if version >= _OLDEST_WITH_ADDRESS_SIZE and cursor.accept(".address_size"):
        token = cursor.next()
        if token.text != "64":
            raise cursor.error("only 64-bit addresses are supported", token)
    return target, frozenset(options)


def _target(cursor: Cursor, version: tuple[int, int]) -> tuple[str, list[str]]:
    targets: list[str] = []
    options: list[str] = []
    while True:
        token = cursor.next()
        number = token.text.removeprefix("sm_")
        if token.text in _OPTIONS:
            options.append(token.text)
        elif number in _SINCE or _LATER_TARGET.fullmatch(number):
            if _SINCE.get(number, (8, 6)) > version:
                raise cursor.error(f"target {token.text} requires a newer .version", token)
            targets.append(token.text)
        else:
            raise cursor.error(f"{token.text!r} is not a target", token)
        if not cursor.accept(","):
            break
    if len(targets) != 1:
        raise cursor.error("exactly one target is expected")
    return targets[0], options
