"""How a source differs from another one, as a prompt shows it."""

from __future__ import annotations

import difflib

from astra_chat.agents.source_text import listing
from astra_chat.tools.text import fenced

CONTEXT = 2
"""Lines beside each change."""


def difference(before: str, after: str) -> str:
    """The changed lines with a few beside them; the whole source where that is shorter."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), "source to change", "this one", "", "", CONTEXT, ""
    )
    changed, whole = fenced("\n".join(lines), "diff"), listing(after)
    return changed if len(changed) < len(whole) else whole
