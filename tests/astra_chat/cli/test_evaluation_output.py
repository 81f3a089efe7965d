"""What `check` prints names the user's file, and the seed of a kernel that passed."""

from __future__ import annotations

import pytest

from astra_chat.cli.judge import show_evaluation
from astra_chat.tools.types import Correct, Unsafe, Wrong
from tests.chat_samples import CASE, check_record, evaluation


def test_a_finding_names_the_users_file(capsys: pytest.CaptureFixture[str]) -> None:
    unsafe = Unsafe(case=CASE, what="race, other: kernel.cu:12", where="kernel.cu:14")
    found = evaluation("", unsafe)
    assert not show_evaluation(found, as_json=False, quiet=True, file="mine.cu")
    out = capsys.readouterr().out
    assert "other: mine.cu:12, mine.cu:14" in out and "kernel.cu" not in out
    show_evaluation(found, as_json=True, quiet=False, file="mine.cu")
    assert "kernel.cu:14" in capsys.readouterr().out, "JSON is as the judge says"


def test_a_wrong_result_names_the_users_file(capsys: pytest.CaptureFixture[str]) -> None:
    note = "this element was last written at kernel.cu:12, block (0, 0, 0), thread (0, 0, 0)"
    numbers = {"index": (0,), "expected": 1, "got": 2, "bad": 1, "total": 4}
    wrong = Wrong(case=CASE, argument="y", reason="value", note=note, **numbers)
    assert not show_evaluation(evaluation("", wrong), as_json=False, quiet=True, file="mine.cu")
    assert "last written at mine.cu:12, block" in capsys.readouterr().out


def test_warnings_name_the_users_file(capsys: pytest.CaptureFixture[str]) -> None:
    record = check_record(warnings=("uninitialized read, kernel.cu:44",))
    found = evaluation("", Correct(cases=1, worst=0.5)).model_copy(update={"check": record})
    assert show_evaluation(found, as_json=False, quiet=False, file="mine.cu")
    assert "uninitialized read, mine.cu:44" in capsys.readouterr().out


def test_a_kernel_that_passed_has_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    passed = evaluation("", Correct(cases=1, worst=0.5)).model_copy(update={"seed": "ab-cd"})
    assert show_evaluation(passed, as_json=False, quiet=False)
    assert "the same cases again: --seed ab-cd\n" in capsys.readouterr().out
