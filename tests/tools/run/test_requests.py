"""What a runner process is asked, and how long its calls may take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.plan.model import KernelNode, LaunchPlan
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CallRequest
from astra_chat.tools.run.requests import (
    CALL_TIMEOUT_S,
    PATIENCE,
    RUN_TIMEOUT_S,
    SHORT_CALL_TIMEOUT_S,
    SMALL_LAUNCH_THREADS,
    Batch,
    Call,
    Requests,
    threads_of,
)
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case

BUILD = Build(Path("build"), (), cached=False, seconds=0.0)
TASK = find_task("silu_and_mul")
REQUESTS = Requests(TASK, virtual_device("h200"), "auto", Stop(), {}, set())


def call(tokens: int, entry: str = "") -> Call:
    case = Case(dims={"tokens": tokens, "d": 4096}, dtype="float16")
    return Call(OracleCase(case, Path("x"), Path("y")), entry=entry)


def test_calls_that_are_together_share_a_limit() -> None:
    batch = Batch(BUILD, [call(1), call(1)], "check")
    assert not REQUESTS.apart(batch)
    assert REQUESTS.limit_s(batch) == PATIENCE["virtual"] * RUN_TIMEOUT_S["check"]
    assert REQUESTS.limit_s(batch, 1) == REQUESTS.limit_s(batch)


def test_a_short_call_that_is_apart_gets_little_time() -> None:
    batch = Batch(BUILD, [call(1, "a"), call(1, "b"), call(4096, "a")], "check")
    assert REQUESTS.apart(batch)
    found = [REQUESTS.limit_s(batch, done) for done in range(4)]
    assert found == [CALL_TIMEOUT_S, SHORT_CALL_TIMEOUT_S, CALL_TIMEOUT_S, CALL_TIMEOUT_S]


def test_calls_whose_results_stay_there_have_no_folder(tmp_path: Path) -> None:
    kept, there = (Batch(BUILD, [], "check", compared_there=stays) for stays in (False, True))
    assert kept.folder(tmp_path, 0).is_dir() and not there.folder(tmp_path, 1).exists()


def test_two_processes_share_many_calls_and_keep_together_what_uses_the_same_memory() -> None:
    """In parts of eight; every third call is in the buffers of the one before, and the first of
    the second part is large, so that it stays with the first process."""
    calls = [replace(call(1), how="same_buffers" if n % 3 == 2 else "fresh") for n in range(60)]
    calls[12] = call(2**16)
    first, second = REQUESTS.shares(Batch(BUILD, calls, "check"))
    assert sorted([*first, *second]) == list(range(60)) and len(second) > 20
    assert {12} <= set(first) and {13, 14, 15} <= set(second)
    for place, one in enumerate(calls):
        if one.how == "same_buffers":
            assert {place - 1, place} <= set(first) or {place - 1, place} <= set(second)
    assert REQUESTS.shares(Batch(BUILD, calls[:20], "check")) == [list(range(20))]
    assert REQUESTS.shares(Batch(BUILD, calls, "time")) == [list(range(60))]


def test_threads_of_many_large_launches_count_together_in_whole_warps() -> None:
    """Two launches of blocks of one thread, and one too small for the C engine."""

    def launching(blocks: int, threads: int) -> CallRequest:
        case = call(1).oracle_case.case
        node = KernelNode(kernel="k", grid=(blocks, 1, 1), block=(threads, 1, 1))
        plan = LaunchPlan(case=case, nodes=(node,))
        return CallRequest(case=case, inputs=Path("x"), after=Path("y"), plan=plan)

    large = SMALL_LAUNCH_THREADS // 32
    calls = [launching(large, 1), launching(large, 33), launching(large - 1, 1)]
    assert threads_of(calls) == {"k": 3 * SMALL_LAUNCH_THREADS}
