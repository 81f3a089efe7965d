"""Nsight Compute as a second clock: its page read call by call; the real thing under `-m gpu`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.profiling import ncu_cross_check as module
from astra_chat.tools.profiling.ncu_cross_check import Profiled, cross_check, durations, ends
from astra_chat.tools.profiling.nsight_compute import NOT_PERMITTED
from astra_chat.tools.run.nvidia_tools import NvidiaToolRun
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.timing.verdict import TimedCase, time_cases
from astra_chat.tools.types import Case, Implausible, MeasuredTime, Refused, TimedOut
from astra_vgpu.ground.errors import MissingDependency

TASK = find_task("silu_and_mul")
CASES = (
    Case(dims={"tokens": 16, "d": 4096}, dtype="float16"),
    Case(dims={"tokens": 1024, "d": 14336}, dtype="float16"),
    Case(dims={"tokens": 64, "d": 8192}, dtype="float16"),
)


def page(*rows: tuple[str, str]) -> str:
    head = '==PROF== Connected\n"ID","Kernel Name","gpu__time_duration.sum"\n"","","ns"\n'
    return head + "".join(f'"{i}","{name}","{ns}"\n' for i, (name, ns) in enumerate(rows))


def test_launches_of_a_call_add_up_and_the_median_call_counts() -> None:
    mark = ("astra_77", "900")
    log = page(
        mark,
        ("a(int)", "1,000"),
        ("b(int)", "500"),
        mark,
        ("a(int)", "3000"),
        mark,
        ("a(int)", "2000"),
        mark,
        ("large(int)", "90,000"),
        mark,
    )
    assert durations(log, "astra_77", [3, 1]) == [Profiled(2.0, 1), Profiled(90.0, 1)]


def test_a_process_that_ended_early_shows() -> None:
    mark = ("astra_77", "900")
    assert durations(page(mark, ("a", "1"), mark), "astra_77", [2]) is None
    assert durations(page(mark, ("a", "1")), "astra_77", [1]) is None, "the last mark is missing"
    assert durations("==ERROR== nothing", "astra_77", [1]) is None


def test_a_duration_that_cannot_be_read_is_a_missing_one() -> None:
    mark, other = ("astra_77", "900"), ("a", "5000")
    assert durations(page(mark, ("a", "n/a"), mark), "astra_77", [1]) is None
    assert durations(page(mark, ("a", "nan"), mark), "astra_77", [1]) is None
    whole = page(mark, other, mark)
    assert durations(whole.replace(',"5000"', ""), "astra_77", [1]) is None, "a cut row"
    assert durations(whole.replace("sum", "max"), "astra_77", [1]) is None, "another metric"
    noted = whole.replace('"1","a"', '==WARNING== a note\n"1","a"')
    assert durations(noted, "astra_77", [1]) == [Profiled(5.0, 1)]


def test_a_tool_that_fails_once_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def fails(times: int) -> list[Profiled] | None:
        asked.clear()

        def profiled(*_: object) -> list[Profiled]:
            asked.append(1)
            if len(asked) <= times:
                raise MissingDependency("it did not record all calls")
            return [Profiled(1.0, 1)]

        monkeypatch.setattr(module, "_profiled", profiled)
        return module._tried_twice(None, None, [])  # type: ignore[arg-type, return-value]

    assert fails(1) == [Profiled(1.0, 1)] and len(asked) == 2
    assert fails(2) is None, "it ends there every time: held against the kernel"


def test_a_candidate_cannot_name_its_kernels_so() -> None:
    log = page(("astra_77", "1"), ("astra_00", "5000"), ("astra_77", "1"))
    assert durations(log, "astra_77", [1]) == [Profiled(5.0, 1)]


def test_the_smallest_and_the_largest_are_looked_at() -> None:
    assert ends([5, 9, 2, 9]) == [1, 2] and ends([3]) == [0] and ends([4, 4]) == [0]


@pytest.fixture(scope="module")
def oracle_cases(oracle: Oracle) -> list[OracleCase]:
    return oracle.oracle_cases(CASES, Stop())


def built(source: str) -> Build:
    made = build(TASK, source, pick_device("cuda"))
    assert isinstance(made, Build), made
    return made


@pytest.fixture(scope="module")
def timed(oracle: Oracle, oracle_cases: list[OracleCase]) -> list[TimedCase]:
    """The baseline against itself."""
    base, runner = built(TASK.baseline), Runner(TASK, pick_device("cuda"))
    found = time_cases(runner, oracle, base, base, [(t, 1.0) for t in oracle_cases])
    assert isinstance(found, list), found
    return found


@pytest.mark.gpu
def test_an_honest_kernel_agrees_on_two_cases(
    oracle_cases: list[OracleCase], timed: list[TimedCase]
) -> None:
    base = built(TASK.baseline)
    found, words = cross_check(Runner(TASK, pick_device("cuda")), base, base, oracle_cases, timed)
    assert isinstance(found, list), found
    times = [case.time for case in found]
    assert [isinstance(t, MeasuredTime) and t.launches for t in times] == [1, 1, 0]
    assert words.endswith("of Nsight Compute's durations")


@pytest.mark.gpu
def test_a_judged_time_that_is_not_true_is_not_believed(
    oracle_cases: list[OracleCase], timed: list[TimedCase]
) -> None:
    """Times are false as if events had been made to tell a third of the time."""
    false = [
        replace(t, time=t.time.model_copy(update={"median_us": t.time.median_us / 3}))
        for t in timed
    ]
    base = built(TASK.baseline)
    found, _ = cross_check(Runner(TASK, pick_device("cuda")), base, base, oracle_cases, false)
    assert isinstance(found, Implausible) and "Nsight Compute measured" in found.why


@pytest.mark.gpu
def test_a_launcher_that_works_once_is_refused_before_the_profiler(
    oracle_cases: list[OracleCase], timed: list[TimedCase]
) -> None:
    """It works in a process's first call only, as one that recognizes a profiler could."""
    start = TASK.baseline.index('extern "C"')
    body = TASK.baseline.index("{", start) + 1
    lazy = (
        f"{TASK.baseline[:body]}\n  static int calls = 0;\n  if (calls++) return cudaSuccess;\n"
        f"{TASK.baseline[body:]}"
    )
    runner, base = Runner(TASK, pick_device("cuda")), built(TASK.baseline)
    found, _ = cross_check(runner, built(lazy), base, oracle_cases, timed)
    assert isinstance(found, Refused) and "depends on earlier calls" in found.findings[0].what


@pytest.mark.gpu
def test_without_permission_it_says_so(
    monkeypatch: pytest.MonkeyPatch, oracle_cases: list[OracleCase], timed: list[TimedCase]
) -> None:
    class NotPermitted:
        def __enter__(self) -> NvidiaToolRun | TimedOut:
            return NvidiaToolRun(f"==ERROR== {NOT_PERMITTED}", "")

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(module, "_under_ncu", lambda *_: NotPermitted())
    base = built(TASK.baseline)
    found, words = cross_check(Runner(TASK, pick_device("cuda")), base, base, oracle_cases, timed)
    assert found == timed and "may not read the GPU's counters" in words
