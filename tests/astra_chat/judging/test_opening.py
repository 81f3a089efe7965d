"""A judge by the words of the command line."""

from __future__ import annotations

from pathlib import Path

from astra_chat.judging.evaluating import open_judge


def test_the_options_reach_the_judge(task_folder: Path) -> None:
    with open_judge(
        task_folder, "virtual", "h100", "bench", trust=True, engine="numpy", seed="5eed"
    ) as judge:
        assert judge.task.name == "doubled" and judge.device.spec == "h100"
        assert judge.weighted == judge.task.bench and judge.entropy.root.endswith("5eed")
