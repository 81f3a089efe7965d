"""What the program says for itself, on stderr, beside the output proper."""

from __future__ import annotations

import sys

from astra_chat.tools.text import plain


def note(words: str) -> None:
    """One line; control codes in it are spelt out."""
    print(f"astra-chat: {plain(words)}", file=sys.stderr)
