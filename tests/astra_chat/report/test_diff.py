"""A difference shows what the sources hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.report.rounds import AROUND, difference
from tests.chat_samples import SCALAR, VECTOR

OLD = "\n".join(f"line {n}" for n in range(1, 31))


def test_one_line_changed() -> None:
    found = difference(OLD, OLD.replace("line 15", "other"))
    kinds = [row.kind for row in found.rows]
    assert kinds == ["gap", *["same"] * AROUND, "removed", "added", *["same"] * AROUND, "gap"]
    assert found.counts == "+1 -1 lines"
    removed, added = found.rows[AROUND + 1 : AROUND + 3]
    assert (removed.number, added.number) == (15, 15)
    assert removed.text.striptags() == "line 15" and added.text.striptags() == "other"
    assert (found.rows[0].number, found.rows[-1].number) == (11, 12)


def test_added_and_removed() -> None:
    added, removed = difference("a\nb", "a\nx\ny\nb"), difference("a\nx\nb", "a\nb")
    assert [row.kind for row in added.rows] == ["same", "added", "added", "same"]
    assert [row.kind for row in removed.rows] == ["same", "removed", "same"]
    assert [row.number for row in added.rows] == [1, 2, 3, 4]
    assert [row.number for row in removed.rows] == [1, 2, 2]


def test_nothing_changed_and_nothing_there() -> None:
    assert difference(OLD, OLD).rows == () and difference("", "").rows == ()
    assert difference("", "a\n\nb").counts == "+2 -0 lines", "as in the chat: no blank ones"


@pytest.mark.parametrize("pair", [(SCALAR, VECTOR), (VECTOR, SCALAR), (OLD, VECTOR)])
def test_the_new_source_follows_from_the_rows(pair: tuple[str, str]) -> None:
    """Shown and left-out lines of a real change together are the whole."""
    old, new = pair
    found = difference(old, new)
    assert len(new.splitlines()) - len(old.splitlines()) == found.added - found.removed
    for row in found.rows:
        if row.kind != "gap":
            source = old if row.kind == "removed" else new
            assert row.text.striptags() == " ".join(source.splitlines()[row.number - 1].split())
    numbers = [row.number for row in found.rows if row.kind in ("same", "added")]
    assert numbers == sorted(set(numbers))
    left_out = sum(row.number for row in found.rows if row.kind == "gap")
    shown = sum(row.kind in ("same", "added") for row in found.rows)
    assert not found.rows or left_out + shown == len(new.splitlines())


def test_of_committed_kernels() -> None:
    folder = Path(__file__).parents[3] / "sglang_kernels/silu_and_mul"
    found = difference((folder / "baseline.cu").read_text(), (folder / "paper.cu").read_text())
    assert found.removed > found.added > 0
