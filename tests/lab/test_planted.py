"""The page of planted faults: what counts, and what it says was missed."""

from __future__ import annotations

import pytest

from astra_chat.tools.task.folder import find_task
from lab.planted import FaultJudgement, document, judged
from lab.planted_faults import Fault, faults

TASK = find_task("silu_and_mul")
FAULT = next(iter(faults(TASK, 1, "1")))


def judgement(
    fault: Fault, *, first: str, confirmation: str = "", real: bool = True
) -> FaultJudgement:
    return FaultJudgement(TASK.name, fault, real, first, confirmation)


@pytest.mark.parametrize(
    ("first", "confirmation", "caught"),
    [
        ("wrong", "", (True, True)),
        ("unsafe", "", (True, True)),
        ("correct", "wrong", (False, True)),
        ("correct", "correct", (False, False)),
        ("unsupported", "", (False, False)),
    ],
)
def test_what_counts_as_caught(first: str, confirmation: str, caught: tuple[bool, bool]) -> None:
    one = judgement(FAULT, first=first, confirmation=confirmation)
    assert (one.caught_first, one.caught) == caught


def test_the_page_counts_real_faults_and_names_the_missed() -> None:
    made = [
        judgement(FAULT, first="wrong"),
        judgement(FAULT, first="correct", confirmation="wrong"),
        judgement(FAULT, first="correct", confirmation="correct", real=False),
    ]
    page = document(made, "1")
    assert "2 of 3" in page and "| all | 2 | 1 (50 %) | 2 (100 %) |" in page
    assert page.count("- silu_and_mul: ") == 1 and "(confirmation: caught)" in page
    assert f"| {FAULT.kind} | 2 |" in page


@pytest.mark.second_tier
def test_a_judge_catches_a_fault_in_a_window_of_sizes() -> None:
    (one,) = judged(TASK, [FAULT], "7")
    assert FAULT.kind == "size window" and one.real and one.caught_first and not one.confirmation
