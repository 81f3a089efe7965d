"""The tester's cases and their score as they are shown."""

from __future__ import annotations

from astra_chat.display.turn_view import suite_lines
from tests.chat_samples import CASE, scored, suite


def test_a_suite_is_cut_and_says_how_much() -> None:
    lines = [str(line) for line in suite_lines(suite(*((7, 4 * n) for n in range(1, 12))))]
    assert lines[0] == "Odd extents." and lines[1] == "- 7x4 float32: odd"
    assert len(lines) == 10 and lines[-1] == "- and 3 more"


def test_a_score_says_what_is_new_and_what_is_not_kept() -> None:
    other = CASE.model_copy(update={"dims": {"rows": 1, "d": 4}})
    lines = [str(line) for line in suite_lines(scored(CASE, other, idle=[other]))]
    assert "detect 1 of 3 seeded bugs" in lines[0] and "detect 1 of the 2" in lines[0]
    assert lines[1:] == [
        "- 4x64 float32: detects 1, 1 of them new",
        "- 1x4 float32: detects none, discarded",
        "survived, possibly an equivalent mutant: number in line 3",
    ]
