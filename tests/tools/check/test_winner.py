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
from lab.attack_kernels import kernels
from tests.tools.check.test_virtual_gpu_sanitizer import TASK

DEVICE = virtual_device("h200")
HELPER = kernels("honest")["row_sum_helper_warp.cu"]
SMALL = [case for case in TASK.check if case.values == "normal"]


def fault(
    monkeypatch: pytest.MonkeyPatch, source: str, what: str, timed: Sequence[Case] = SMALL[:1]
) -> Unsafe | Refused | Any:
    """What counts against a kernel of which Compute Sanitizer says this; the virtual GPU runs
    it."""
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
    cluster = kernels("honest")["row_sum_cluster.cu"]
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


@pytest.mark.second_tier
def test_a_race_in_the_second_turn_of_a_block_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """No small case has so many rows: blocks of the timed ones are watched, too."""
    turns = TASK.baseline.replace("x, int64_t n) {", "x, int64_t n, unsigned rows) {")
    turns = turns.replace(
        "float sum = 0.0f;",
        "for (unsigned row = blockIdx.x; row < rows; row += 512) {\n  float sum = 0.0f;",
    )
    turns = turns.replace("blockIdx.x * n", "row * n").replace(
        "out[blockIdx.x] = total;\n", "out[row] = total;\n  }\n"
    )
    turns = turns.replace("unsigned(rows), 256", "unsigned(rows < 512 ? rows : 512), 256").replace(
        "x, n);", "x, n, unsigned(rows));"
    )
    found = fault(monkeypatch, turns, "", [case for case, _ in TASK.bench])
    assert isinstance(found, Unsafe) and "race" in found.what
    assert found.case.dims["rows"] == 1024
    safe = turns.replace("float sum = 0.0f;", "float sum = 0.0f;\n  __syncthreads();")
    assert fault(monkeypatch, safe, "", [case for case, _ in TASK.bench]) is None
