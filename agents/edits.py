"""Anchored edits: a kernel given as changes to a source instead of as a whole file."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from astra_chat.agents.source_text import spans, without_numbers
from astra_chat.agents.turns import Edit, Edits, Kernel

SHOWN = 60


def kernel_of(given: Edits, source: str) -> Kernel:
    """The whole file that the edits make of `source`.

    Raises ValueError, with a text for the model, if an anchor does not occur exactly once, edits
    overlap, or nothing changes.
    """
    spans = sorted(_span(edit, source) for edit in given.edits)
    for (_, end, _), (start, _, text) in pairwise(spans):
        if start < end:
            raise ValueError(f"two edits overlap before {_shown(text)}: combine them")
    changed = source
    for start, end, text in reversed(spans):
        changed = changed[:start] + text + changed[end:]
    if changed == source:
        raise ValueError("the edits change nothing")
    return Kernel(words=given.words, source=changed, edits=len(given.edits))


def _span(edit: Edit, source: str) -> tuple[int, int, str]:
    """Start and end of the edit's anchor, and its replacement."""
    found = spans(edit.find, source)
    if len(found) != 1:
        hint = (
            "give a longer excerpt, which occurs only once"
            if found
            else "copy it exactly, including whitespace"
        )
        raise ValueError(
            f"the text to find, {_shown(edit.find)}, must occur once in the source to change, but "
            f"it occurs {len(found)} times: {hint}"
        )
    return *found[0], without_numbers(edit.replace, source)


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "...")


def lines_of(anchor: str, source: str) -> Sequence[int]:
    """Numbers of the lines, from 1, in which an anchor begins, ignoring whitespace around it."""
    return [source.count("\n", 0, start) + 1 for start, _ in spans(anchor.strip(), source)]
