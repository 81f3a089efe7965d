"""The virtual GPU asked about kernels of a real one: what it says, and when it says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check import winner as module
from astra_chat.tools.check.winner import MAX_BYTES, Watched, sanitize_virtual
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.types import Refused, Unsafe
from lab.attack_kernels import kernels

ATTACKS = Path(__file__).parents[2] / "attacks"
TASK = load_task(ATTACKS / "tasks" / "row_sum")
DEVICE = virtual_device("h200")


def opinion(oracle: Oracle, source: str) -> Unsafe | Refused | Watched:
    built = build(TASK, source, DEVICE)
    assert isinstance(built, Build)
    cases = [case for case in TASK.check if case.values == "normal"]
    return sanitize_virtual(Runner(TASK, DEVICE), built, oracle, cases)


def test_a_race_between_blocks_is_told(oracle: Oracle) -> None:
    source = kernels("attacks")["x68_clears_while_it_adds.cu"]
    found = opinion(oracle, source)
    assert isinstance(found, Unsafe) and "race between blocks" in found.what
    assert found.what.endswith("(found on the virtual GPU)")


@pytest.mark.second_tier
def test_of_an_honest_kernel_and_of_what_it_lacks_it_says_nothing(oracle: Oracle) -> None:
    small = [c for c in TASK.check if c.values == "normal" and TASK.least_bytes(c) <= MAX_BYTES]
    assert opinion(oracle, TASK.baseline) == Watched(frozenset(case.label for case in small))
    lacking = kernels("honest")["row_sum_cluster.cu"]
    assert opinion(oracle, lacking) == Watched(frozenset())


def test_what_reaches_the_timed_kernels_is_watched_beyond_the_size_of_a_check_case(
    oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The winner of fused_add_rmsnorm_quant_fp8 had a covering case of MAX_BYTES and 8 bytes: what
    synccheck said of it stood, though nothing was wrong."""
    built = build(TASK, TASK.baseline, DEVICE)
    assert isinstance(built, Build)
    first, second = sorted(
        (case for case, _ in TASK.bench if TASK.least_bytes(case) > MAX_BYTES), key=TASK.least_bytes
    )[:2]
    monkeypatch.setattr(module, "MAX_REACHING_BYTES", TASK.least_bytes(first) + 1)
    seen = sanitize_virtual(Runner(TASK, DEVICE), built, oracle, [], [first, second])
    assert seen == Watched(frozenset([first.label]))


@pytest.mark.second_tier
def test_wrong_results_are_for_the_real_gpu_to_tell(oracle: Oracle) -> None:
    wrong = TASK.baseline.replace("out[blockIdx.x] = total;", "out[blockIdx.x] = total + 1.0f;")
    assert wrong != TASK.baseline and isinstance(opinion(oracle, wrong), Watched)
