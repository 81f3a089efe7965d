"""Wrong kernels by class: all of them can be made, and the judge finds them at once."""

from __future__ import annotations

from collections import Counter

import pytest

from astra_chat.tools.judge import Judge
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from tests.attacks import wrong_kernels

ALL = wrong_kernels.wrong_kernels()


def test_each_class_has_twelve_kernels_of_six_tasks() -> None:
    for kind, count in Counter(one.kind for one in ALL).items():
        assert count >= 12, kind
        assert len({one.task for one in ALL if one.kind == kind}) >= 6, kind


@pytest.mark.second_tier
def test_every_edit_applies_to_its_baseline() -> None:
    assert len({one.id for one in ALL}) == len({one.source for one in ALL}) == len(ALL)


@pytest.mark.second_tier
@pytest.mark.sampled(3)
@pytest.mark.parametrize("one", ALL, ids=[one.id for one in ALL])
def test_a_wrong_kernel_is_found_at_its_first_evaluation(one: wrong_kernels.WrongKernel) -> None:
    known = [line for line in wrong_kernels.lines_of(wrong_kernels.RECORD) if line.id == one.id]
    if any(line.found != "check" for line in known if line.device == "virtual"):
        pytest.skip("the record names it as found later")
    with Judge(find_task(one.task), pick_device("virtual")) as judge:
        where, seen = wrong_kernels.found(judge, one, confirm=False)
    assert where == "check", seen.outcome


def test_the_document_says_what_was_recorded() -> None:
    assert wrong_kernels.document() == wrong_kernels.DOCUMENT.read_text()


def test_the_table_counts_what_was_found_and_when() -> None:
    lines = [
        wrong_kernels.Line(id=one.id, device="virtual", found=found, words="", seed="")
        for one, found in zip(ALL, ("check", "missed", "invalid", "confirmation"), strict=False)
    ]
    assert wrong_kernels.table(lines)[-1] == "| **all** | 3 | 1 | 1 | 1 |"
