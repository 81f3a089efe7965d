"""The chat's own figures are printed. How large they are is the machine's affair."""

from __future__ import annotations

import re

import pytest

from astra_chat.tools.task.folder import find_task
from lab.measure_astra import checks, turns


def test_turns(capsys: pytest.CaptureFixture[str]) -> None:
    turns()
    found = re.search(
        r"best ([\d.]+) ms, median ([\d.]+) ms \((\d+) turns\)", capsys.readouterr().out
    )
    assert found is not None
    assert 0 < float(found[1]) <= float(found[2]) and int(found[3]) > 20


@pytest.mark.second_tier
def test_checks(capsys: pytest.CaptureFixture[str]) -> None:
    """A task in which one case is wrong would end it."""
    checks("virtual", ["moe_align_block_size"])
    printed = capsys.readouterr().out
    count = len(find_task("moe_align_block_size").check)
    task, total = re.findall(r"([\d.]+) s, of processors ([\d.]+) s", printed)
    assert f"moe_align_block_size: {count} cases, " in printed
    assert task == total and float(task[1]) > 0
