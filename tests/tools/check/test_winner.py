"""What counts against a winner, where the tools of two makers disagree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check import winner as module
from astra_chat.tools.check.compute_sanitizer import SITES
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.types import Case, Refused, Unsafe
from tests.tools.check.test_virtual_gpu_sanitizer import ATTACKS, TASK

DEVICE = virtual_device("h200")
HELPER = (ATTACKS / "honest" / "row_sum_helper_warp.cu").read_text()
SMALL = [case for case in TASK.check if case.values == "normal"]


def fault(
    monkeypatch: pytest.MonkeyPatch, source: str, what: str, timed: Sequence[Case] = SMALL[:1]
) -> Unsafe | Refused | Any:
    """Of a kernel of which Compute Sanitizer says this; the virtual GPU runs it."""
    said = Unsafe(case=SMALL[0], what=what, where="kernel.cu:14") if what else None
    monkeypatch.setattr(module, "sanitize_cuda", lambda *_: said)
    monkeypatch.setattr(module, "launches_otherwise", lambda *_: None)
    built, baseline = (build(TASK, text, DEVICE) for text in (source, TASK.baseline))
    assert isinstance(built, Build) and isinstance(baseline, Build)
    oracle, runner = Oracle(TASK), Runner(TASK, DEVICE)

    def oracle_cases(cases: Sequence[Case]) -> list[OracleCase]:
        return oracle.oracle_cases(cases, Stop())

    try:
        return module.winner_fault(
            runner, built, baseline, oracle, SMALL, timed, oracle_cases, lambda _: None
        )
    finally:
        oracle.close()


@pytest.mark.second_tier
def test_warps_may_meet_by_different_instructions_where_the_virtual_gpu_has_watched_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sites = f"synccheck: {SITES}."
    assert fault(monkeypatch, HELPER, sites) is None
    assert fault(monkeypatch, HELPER, "") is None
    named = f"racecheck: Error: Race reported in {SITES}:3"
    assert fault(monkeypatch, HELPER, named).what == named, "a name that the source chose"
    cluster = (ATTACKS / "honest" / "row_sum_cluster.cu").read_text()
    assert fault(monkeypatch, cluster, sites).what == sites, "the virtual GPU does not run it"


@pytest.mark.second_tier
def test_warps_that_miss_each_other_are_found_by_the_virtual_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The helper reads before the others have written: it skips the barrier."""
    meet = 'asm volatile("bar.sync 0;" ::: "memory");'
    alone = HELPER.replace(meet, "__syncwarp();", 1)
    found = fault(monkeypatch, alone, f"synccheck: {SITES}.")
    assert isinstance(found, Unsafe) and found.what.endswith("(found on the virtual GPU)")
