"""Characters of prompts by role: what is stable, and what changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.replay.prompts import Prompt
from lab.prompt_sizes import main, size_of, sizes, table

EXAMPLE = Path(__file__).resolve().parents[2] / "transcripts/examples/virtual/silu_and_mul.jsonl.xz"
TEXT = (
    "## Task one\nabc\n\n## The plan: more\nsome words\n\n## The plan: again\nx\n\n"
    "Turn: round 2, attempt 1."
)


def test_what_is_the_same_in_every_prompt_does_not_count_as_changing() -> None:
    size = size_of(Prompt(3, "coder", "", TEXT))
    assert size is not None and size.round == 2
    assert size.total == len(TEXT)
    assert size.changing == len(TEXT) - len("## Task one\nabc\n\n")


def test_the_selector_has_no_sections() -> None:
    assert size_of(Prompt(3, "selector", "", TEXT)) is None


def test_of_a_recorded_run_from_the_second_round_on(capsys: pytest.CaptureFixture[str]) -> None:
    measured = list(sizes([EXAMPLE]))
    assert {size.role for size in measured} == {"planner", "coder", "fixer", "profiler", "tester"}
    assert all(0 < size.changing < size.total and size.round >= 2 for size in measured)
    main([str(EXAMPLE)])
    shown = capsys.readouterr().out
    assert all(row in shown for row in table(measured))
    assert table(measured)[-1].startswith(f"| all | {len(measured)} |")
