"""Long chats are made of turns that differ, and their figures are printed."""

from __future__ import annotations

import re

import pytest

from astra_chat.agents.turns import Source
from astra_chat.tools.task.folder import Task
from lab import measure_long_runs


def test_the_script_has_another_kernel_in_every_round(task: Task) -> None:
    script = measure_long_runs.script(task, 3)
    kernels = [script.kernel(number, 0) for number in (1, 2, 3)]
    assert len({kernel.source for kernel in kernels if isinstance(kernel, Source)}) == 3
    assert script.kernel(4, 0) is None and script.plan(4) is None
    lines = script.sources["0.cu"].count("\n")
    assert lines == measure_long_runs.LINES + 1


@pytest.mark.second_tier
def test_figures_of_short_chats(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure_long_runs, "LENGTHS", (10, 30))
    measure_long_runs.main()
    out = capsys.readouterr().out
    figures = re.findall(r"one more takes ([\d.]+) ms.* takes ([\d.]+) s, (\d+) turns", out)
    assert len(figures) == 2 and "after 30 turns" in out
    assert re.search(r"prompts of the coder: [\d,]+ in round 1, .* as the one before", out)
    sizes = re.findall(r"prompts of the coder: ([\d,]+) in round 1, ([\d,]+) in round 2", out)
    (tied, tied_on), (first, second) = [[int(n.replace(",", "")) for n in pair] for pair in sizes]
    assert tied == tied_on and second > first > tied, "baseline, then baseline and best"
    assert all(0 < float(ms) < 500 and 0 < float(s) < 60 for ms, s, _ in figures)
    assert all(0 < int(turns) < 12 for *_, turns in figures)
