"""Side by side: what the columns show is what the sources hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from markupsafe import Markup

from astra_chat.report.diff import AROUND, side_by_side
from tests.chat_samples import SCALAR, VECTOR

OLD = "\n".join(f"line {n}" for n in range(1, 31))


def test_one_line_changed() -> None:
    found = side_by_side(OLD, OLD.replace("line 15", "other"))
    kinds = [row.kind for row in found.rows]
    assert kinds == ["gap", *["same"] * AROUND, "changed", *["same"] * AROUND, "gap"]
    assert found.counts == "+1 -1 lines"
    changed = found.rows[AROUND + 1]
    assert (changed.old_number, changed.new_number) == (15, 15)
    assert Markup(changed.old).striptags() == "line 15" and changed.new is not None
    assert (found.rows[0].skipped, found.rows[-1].skipped) == (11, 12)


def test_added_and_removed() -> None:
    added, removed = side_by_side("a\nb", "a\nx\ny\nb"), side_by_side("a\nx\nb", "a\nb")
    assert [row.kind for row in added.rows] == ["same", "added", "added", "same"]
    assert [row.kind for row in removed.rows] == ["same", "removed", "same"]
    assert added.rows[1].old is None and removed.rows[1].new is None


def test_nothing_changed_and_nothing_there() -> None:
    assert side_by_side(OLD, OLD).rows == () and side_by_side("", "").rows == ()
    assert side_by_side("", "a").counts == "+1 -0 lines"


@pytest.mark.parametrize("pair", [(SCALAR, VECTOR), (VECTOR, SCALAR), (OLD, VECTOR)])
def test_the_new_source_follows_from_the_rows(pair: tuple[str, str]) -> None:
    """Shown and left-out lines of a real change together are the whole."""
    old, new = pair
    found = side_by_side(old, new)
    assert len(new.splitlines()) - len(old.splitlines()) == found.added - found.removed
    for row in found.rows:
        if row.new_number is not None:
            assert row.new is not None
            shown = Markup(row.new).striptags()
            assert shown == " ".join(new.splitlines()[row.new_number - 1].split())
    numbers = [row.new_number for row in found.rows if row.new_number]
    assert numbers == sorted(set(numbers))


def test_of_committed_kernels() -> None:
    folder = Path(__file__).parents[3] / "sglang_kernels/silu_and_mul"
    found = side_by_side((folder / "baseline.cu").read_text(), (folder / "paper.cu").read_text())
    assert found.removed > found.added > 0
