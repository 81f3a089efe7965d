"""Runner processes: a broken kernel is a value, whatever it does to its process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check.calls import check
from astra_chat.tools.judge_steps import Steps
from astra_chat.tools.plan.process import RECORD_TIMEOUT_S
from astra_chat.tools.run import runner as runner_module
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.requests import Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system import gpu_lock
from astra_chat.tools.system.devices import pick_device, virtual_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import (
    Case,
    Correct,
    Crashed,
    Device,
    Outcome,
    Refused,
    TimedOut,
    Unsafe,
    Unsupported,
    Wrong,
)

TASK = find_task("silu_and_mul")
CASES = [
    Case(dims={"tokens": 1, "d": 8}, dtype="float32"),
    Case(dims={"tokens": 5, "d": 136}, dtype="bfloat16"),
    Case(dims={"tokens": 33, "d": 264}, dtype="float16"),
]
Judge = Callable[[str], Outcome]


@pytest.fixture(scope="module")
def oracle_cases() -> Iterator[list[OracleCase]]:
    """Made once for all kernels, as a judge does."""
    oracle = Oracle(TASK)
    yield oracle.oracle_cases(CASES, Stop())
    oracle.close()


@pytest.fixture
def judge(device: Device, oracle_cases: list[OracleCase]) -> Judge:
    def run(source: str) -> Outcome:
        """Built and checked without the guard, which would refuse some of these."""
        built = build(TASK, source, device)
        assert isinstance(built, Build), built
        return check(Runner(TASK, device), built, [Call(one) for one in oracle_cases])

    return run


def replaced(source: str, old: str, new: str) -> str:
    assert old in source
    return source.replace(old, new)


@pytest.mark.second_tier
def test_a_right_kernel_is_correct(judge: Judge, scalar: str) -> None:
    outcome = judge(scalar)
    assert isinstance(outcome, Correct)
    assert outcome.cases == 3 and 0 < outcome.worst < 1 and not outcome.sampled


@pytest.mark.second_tier
def test_a_dropped_tail_is_wrong(judge: Judge, scalar: str) -> None:
    outcome = judge(replaced(scalar, "tokens * d + 255) / 256", "tokens * d) / 256 + 1 - 1"))
    assert isinstance(outcome, Wrong | Crashed)
    grid = judge(replaced(scalar, "if (i >= tokens * d)", "if (i >= tokens * d - 1)"))
    assert isinstance(grid, Wrong) and grid.reason == "unwritten"


@pytest.mark.second_tier
def test_a_lost_factor_is_wrong(judge: Judge, scalar: str) -> None:
    outcome = judge(replaced(scalar, "* up);", "* 1.01f * up);"))
    assert isinstance(outcome, Wrong) and outcome.reason == "value" and outcome.argument == "out"


@pytest.mark.second_tier
def test_a_changed_input_is_caught(judge: Judge, scalar: str) -> None:
    outcome = judge(replaced(scalar, "  out[i] =", "  ((T*)input)[i] = T(0.f);\n  out[i] ="))
    assert isinstance(outcome, Wrong)
    assert (outcome.argument, outcome.reason) == ("input", "input_changed")


@pytest.mark.second_tier
def test_a_write_past_the_end(judge: Judge, device: Device, scalar: str) -> None:
    outcome = judge(replaced(scalar, "  out[i] =", "  out[i + 1] = T(0.f);\n  out[i] ="))
    if device.kind == "virtual":
        assert isinstance(outcome, Unsafe)
        assert "out" in outcome.what + outcome.where and "kernel.cu" in outcome.where
    else:
        assert isinstance(outcome, Wrong)


@pytest.mark.second_tier
def test_a_null_pointer(judge: Judge, scalar: str) -> None:
    outcome = judge(
        replaced(scalar, "(T*)out, (const T*)input, tokens", "(T*)out, nullptr, tokens")
    )
    assert isinstance(outcome, Unsafe | Crashed)


@pytest.mark.second_tier
def test_a_launch_that_a_gpu_refuses(judge: Judge, scalar: str) -> None:
    outcome = judge(replaced(scalar, "<<<blocks, 256, 0,", "<<<blocks, 2048, 0,"))
    assert isinstance(outcome, Crashed) and "invalid" in outcome.message


@pytest.mark.second_tier
def test_a_launch_whose_error_is_hidden(judge: Judge, scalar: str) -> None:
    """It leaves poison; the recorder says why."""
    hidden = replaced(scalar, "<<<blocks, 256, 0,", "<<<blocks, 2048, 0,")
    outcome = judge(replaced(hidden, "return cudaGetLastError();", "return cudaSuccess;"))
    if isinstance(outcome, Refused):
        assert "failed with error 1 (invalid argument)" in outcome.findings[0].what
    else:
        assert isinstance(outcome, Wrong) and outcome.reason == "unwritten"


@pytest.mark.second_tier
def test_a_host_crash(judge: Judge, scalar: str) -> None:
    outcome = judge(replaced(scalar, "switch (dtype) {", "abort();\n  switch (dtype) {"))
    assert isinstance(outcome, Crashed) and "SIGABRT" in outcome.message


@pytest.mark.second_tier
def test_an_early_exit_that_claims_success(judge: Judge, scalar: str) -> None:
    claim = 'printf("{\\"kind\\": \\"case\\", \\"index\\": 0, \\"status\\": 0}\\n"); exit(0);'
    outcome = judge(replaced(scalar, "switch (dtype) {", f"{claim}\n  switch (dtype) {{"))
    assert isinstance(outcome, Crashed)


@pytest.mark.second_tier
def test_a_hang_is_timed_out(judge: Judge, scalar: str) -> None:
    outcome = judge(replaced(scalar, "switch (dtype) {", "for (;;) {}\n  switch (dtype) {"))
    assert outcome == TimedOut(step="plan", limit_s=RECORD_TIMEOUT_S)


def on_virtual(source: str, arch: str) -> object:
    device = virtual_device("h200").model_copy(update={"arch": arch})
    built = build(TASK, source, device)
    assert isinstance(built, Build)
    oracle = Oracle(TASK)
    calls = [Call(oracle_case) for oracle_case in oracle.oracle_cases(CASES, Stop())]
    outcome = check(Runner(TASK, device), built, calls)
    oracle.close()
    return outcome


@pytest.mark.second_tier
def test_a_long_loop_of_a_few_threads_runs_on_the_c_engine(scalar: str) -> None:
    """More instructions in a row than NumPy affords, and still no infinite loop."""
    loop = "for (int k = 0; k < (1 << 20); ++k) __nanosleep(0);\n  out[i] ="
    assert isinstance(on_virtual(replaced(scalar, "  out[i] =", loop), "sm_90"), Correct)


@pytest.mark.second_tier
def test_what_it_does_not_read_is_unsupported_and_no_failure_of_ours(scalar: str) -> None:
    outcome = on_virtual(f"{scalar}\n__device__ char large[1ull << 34];\n", "sm_90")
    assert isinstance(outcome, Unsupported) and "17179869184 bytes" in outcome.what


@pytest.mark.second_tier
def test_what_the_virtual_gpu_lacks_is_unsupported(scalar: str) -> None:
    asm = 'asm volatile("wgmma.fence.sync.aligned;");\n  out[i] ='
    outcome = on_virtual(replaced(scalar, "  out[i] =", f"  {asm}"), "sm_90a")
    assert isinstance(outcome, Unsupported)
    assert "wgmma" in outcome.opcode and outcome.line > 0 and "silu" in outcome.kernel


@pytest.mark.second_tier
def test_the_c_engine_runs_behind_the_sandbox(scalar: str) -> None:
    """Compiled here, where a compiler may be started; the runner says what it ran on NumPy."""
    device = pick_device("virtual", None)
    built = build(TASK, scalar, device)
    assert isinstance(built, Build)
    oracle = Oracle(TASK)
    oracle_cases = oracle.oracle_cases(CASES, Stop())
    (*runs,) = Runner(TASK, device, engine="c").run(built, oracle_cases, "check")
    oracle.close()
    assert all(isinstance(run, CaseRun) and not run.report.on_numpy for run in runs)


@pytest.mark.second_tier
def test_a_launcher_of_several_that_crashes_ends_its_calls_only(scalar: str) -> None:
    """Entries of one library: what has no plan is a failure, the others run."""
    device = pick_device("virtual")
    signature = scalar[scalar.index('extern "C"') :].split("{")[0]
    broken = signature.replace("silu_and_mul", "broken") + "{ abort(); }"
    built = build(TASK, f"#include <cstdlib>\n{scalar}\n{broken}", device)
    assert isinstance(built, Build), built
    oracle = Oracle(TASK)
    oracle_cases = oracle.oracle_cases(CASES, Stop())
    entries = ["silu_and_mul", "broken", "silu_and_mul"]
    calls = [Call(one, entry=e) for one, e in zip(oracle_cases, entries, strict=True)]
    found = list(Runner(TASK, device).run_calls(built, calls, "check"))
    oracle.close()
    assert [type(one) for one in found] == [CaseRun, Crashed, CaseRun]


def test_the_wait_for_a_gpu_is_no_use_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two judges of one GPU, which is not there: its lock is."""
    monkeypatch.setattr(gpu_lock, "FOLDER", tmp_path)
    monkeypatch.setattr(runner_module, "gpu_uuid", lambda index: "GPU-1")
    gpu = Device(kind="cuda", name="NVIDIA H200", arch="sm_90", spec="h200")
    holds, told = threading.Event(), threading.Event()
    waiting = Runner(TASK, gpu, on_wait=lambda step, words: told.set())

    def measure() -> None:
        with Runner(TASK, gpu).leased("time", alone=True):
            holds.set()
            told.wait(60)
            time.sleep(0.2)

    other = threading.Thread(target=measure)
    other.start()
    assert holds.wait(60)
    steps = Steps(gpu=waiting.gpu)
    seeded = waiting.seeded(waiting.seed)
    with steps.step("time"), seeded.leased("time", alone=True):
        time.sleep(0.1)
    other.join()
    (step,) = steps.done()
    assert step.gpu is not None and told.is_set()
    assert step.waited_s >= 0.2
    assert 0.1 <= step.gpu.held_s <= step.seconds - step.waited_s + 0.001, "rounded apart"


def test_of_a_thousand_cases_the_sandbox_s_order_is_one_word_of_a_command(
    device: Device, tmp_path: Path
) -> None:
    """Linux takes no word of 128 KiB: with a path for each of its files a call had too many."""
    task = find_task("rope_and_kv_write")
    root = tmp_path / "astra-oracle-0123abcd" / "inputs"
    cases = [
        OracleCase(task.check[0], tmp_path / f"{n:016x}", root / f"{n:016x}") for n in range(1000)
    ]
    built = Build(tmp_path, (), cached=True, seconds=0.0)
    order = Runner(task, device).sandbox(built, cases, tmp_path).order()
    assert str(cases[-1].inputs) in order and len(order) < 2**17
    assert str(cases[-1].folder) not in order, "what is expected is not for a candidate"
