"""What is begun while nvcc works: it is there when it is asked for, and ends with its judge."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from astra_chat.tools.judge import Judge
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.types import Device, Timed
from tests.small_tasks import within


@pytest.mark.second_tier
def test_what_can_be_done_before_a_candidate_is_there_is_prepared() -> None:
    full = within(find_task("silu_and_mul"), tokens=128, d=14336)
    few = full.model_copy(update={"check": full.check[:4], "demo": full.demo[:2]})
    with Judge(few, virtual_device("h200")) as judge:
        judge.prepare()
        judge._bench.prefetch.background.wait()
        checker = judge._bench.checker
        own = checker.own
        assert len(own) == 4 and all(checker.baseline_errors.knows(case) for case in own)
        assert judge.build(judge.baseline).steps[1].note == "from the cache"
        assert isinstance(judge.evaluate(judge.baseline).outcome, Timed)
        assert judge._bench.checker.own == own


def test_who_closes_at_once_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that never ends is stopped, not waited for."""
    begun, ended = threading.Event(), threading.Event()

    def endless(task: Task, sources: Sequence[str], device: Device, stop: Stop) -> None:
        begun.set()
        try:
            while not ended.wait(0.01):
                stop.check()
        finally:
            ended.set()

    monkeypatch.setattr("astra_chat.tools.judge_steps.build_all", endless)
    with Judge(find_task("silu_and_mul"), virtual_device("h200")) as judge:
        judge.prepare()
        assert begun.wait(120)
    assert ended.is_set()
