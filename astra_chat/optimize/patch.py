"""Changed files as a patch for `git apply` and `patch -p1`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from astra_chat.optimize.repository import blob_id

NO_NEWLINE = "\\ No newline at end of file\n"
ABSENT = "0" * 40


@dataclass(frozen=True)
class Change:
    """One file, by its name below the folder that the patch is applied in."""

    name: str
    before: str | None
    """None: there is no such file."""
    after: str
    mode: str = "100644"


def patch_text(changes: Sequence[Change], words: Sequence[str]) -> str:
    """The patch; `words` stand above it, a line each."""
    head = "".join(f"{line}\n" for line in words)
    return head + "\n" + "".join(part for one in changes for part in _changed(one))


def like(before: str, after: str) -> str:
    """`after` with CRLF line ends, if `before` has them everywhere."""
    dos = "\r\n" in before and not re.search(r"(?<!\r)\n", before)
    return after.replace("\n", "\r\n") if dos else after


def _changed(change: Change) -> Iterator[str]:
    old, new = _name("a", change.name), _name("b", change.name)
    before = change.before or ""
    yield f"diff --git {old} {new}\n"
    blobs = (ABSENT if change.before is None else blob_id(before.encode()), _blob(change.after))
    if change.before is None:
        yield f"new file mode {change.mode}\nindex {blobs[0]}..{blobs[1]}\n"
    else:
        yield f"index {blobs[0]}..{blobs[1]} {change.mode}\n"
    end = "\t" if " " in change.name else ""  # where a name with blanks ends
    yield f"--- {'/dev/null' if change.before is None else old + end}\n+++ {new}{end}\n"
    lines = difflib.unified_diff(_lines(before), _lines(change.after))
    for number, line in enumerate(lines):
        if number > 1:  # the names stand above
            yield line if line.endswith("\n") else f"{line}\n{NO_NEWLINE}"


def _blob(text: str) -> str:
    return blob_id(text.encode())


def _lines(text: str) -> list[str]:
    """Lines with their ends; only \\n ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+$", text)


def _name(side: str, name: str) -> str:
    """A name as git has it: quoted, if it has to be."""
    whole = f"{side}/{name}"
    quoted = "".join(_quoted(letter) for letter in whole)
    return whole if quoted == whole else f'"{quoted}"'


def _quoted(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    return letter if letter.isprintable() else "".join(f"\\{b:03o}" for b in letter.encode())
