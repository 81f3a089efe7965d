"""Steps in their order, each with its seconds and its note."""

from __future__ import annotations

import time
from contextlib import nullcontext

import pytest

from astra_chat.tools.judge_steps import Steps
from astra_chat.tools.system.gpu_use import GpuClock, NvmlCounters


def test_a_note_belongs_to_the_last_step() -> None:
    steps = Steps()
    with steps.step("build"):
        pass
    with steps.step("audit"):
        pass
    steps.note("from the cache")
    build, audit = steps.done()
    assert (build.name, build.note, audit.name, audit.note) == (
        "build",
        "",
        "audit",
        "from the cache",
    )
    assert 0 <= build.seconds < 1


def test_a_step_that_ended_in_an_exception_is_not_told() -> None:
    steps = Steps()
    with pytest.raises(KeyError), steps.step("check"):
        raise KeyError
    assert not steps.done()


def test_a_step_tells_of_its_leases() -> None:
    clock = GpuClock(NvmlCounters(99))
    steps = Steps(gpu=clock)
    with steps.step("plan"):
        pass
    with steps.step("check"), clock.around(nullcontext()):
        time.sleep(0.01)
    plan, check = steps.done()
    assert plan.gpu is not None and plan.gpu.held_s == 0.0
    assert check.gpu is not None and 0.01 <= check.gpu.held_s <= check.seconds
