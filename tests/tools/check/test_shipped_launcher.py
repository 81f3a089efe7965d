"""On a real GPU: launchers that do what their plans say, and launchers that know where they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check import winner as module
from astra_chat.tools.check.winner import launches_otherwise
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop, Worker
from astra_chat.tools.task.folder import Task, find_task, task_names
from astra_chat.tools.types import Crashed, Refused

pytestmark = pytest.mark.gpu

KNOWS = """
#include <cstring>
#include <link.h>
static int is_driver(dl_phdr_info* loaded, size_t, void* found) {
  *static_cast<bool*>(found) |= std::strstr(loaded->dlpi_name, "libcuda.so") != nullptr;
  return 0;
}
static bool on_a_gpu() {
  bool found = false;
  dl_iterate_phdr(is_driver, &found);
  return found;
}
"""
LAUNCH = "<<<static_cast<unsigned>(tokens), threads, 0, stream>>>"


@contextmanager
def oracle_of(task: Task) -> Iterator[Oracle]:
    oracle = Oracle(task)
    try:
        yield oracle
    finally:
        oracle.close()


def compared(task: Task, source: str) -> Failure | None:
    device = pick_device("cuda")
    built = build(task, source, device)
    baseline = build(task, task.baseline, device)
    assert isinstance(built, Build) and isinstance(baseline, Build), built
    with oracle_of(task) as oracle:
        oracle_cases = oracle.oracle_cases(list(task.check), Stop())
        return launches_otherwise(Runner(task, device), built, oracle_cases, baseline)


@pytest.mark.parametrize("name", task_names())
def test_shipped_kernels_launch_what_their_plans_say(name: str) -> None:
    task = find_task(name)
    assert compared(task, task.baseline) is None
    fitted = task.folder / "script" / "fitted.cu"
    if fitted.is_file():  # three tasks have a script
        assert compared(task, fitted.read_text()) is None


@pytest.mark.parametrize(
    ("instead", "what"),
    [
        ("<<<static_cast<unsigned>(tokens) + on_a_gpu(), threads, 0, stream>>>", "grid"),
        ("<<<static_cast<unsigned>(tokens), threads * (1 + on_a_gpu()), 0, stream>>>", "block"),
        ("<<<static_cast<unsigned>(tokens), threads, 64 * on_a_gpu(), stream>>>", "shared"),
    ],
)
def test_a_launcher_that_knows_where_it_is(instead: str, what: str) -> None:
    task = find_task("silu_and_mul")
    assert task.baseline.count(LAUNCH) == 1
    found = compared(task, KNOWS + task.baseline.replace(LAUNCH, instead))
    assert isinstance(found, Refused), found
    said = found.findings[0].what
    assert "does not follow its launch plan" in said and what in said


def test_other_parameters_and_other_nodes() -> None:
    task = find_task("silu_and_mul")
    shifted = task.baseline.replace(
        "static_cast<T*>(out), static_cast<const T*>",
        "static_cast<T*>(out) + on_a_gpu(), static_cast<const T*>",
    )
    found = compared(task, KNOWS + shifted)
    assert isinstance(found, Refused) and "parameters" in found.findings[0].what
    more = task.baseline.replace(
        "  return cudaGetLastError();",
        "  if (on_a_gpu()) cudaMemsetAsync(out, 0, 16, stream);\n  return cudaGetLastError();",
    )
    found = compared(task, KNOWS + more)
    assert isinstance(found, Refused) and "2 nodes" in found.findings[0].what


def test_a_launcher_that_dies_on_a_gpu() -> None:
    task = find_task("silu_and_mul")
    dies = task.baseline.replace(
        "  return cudaGetLastError();",
        "  if (on_a_gpu()) *(volatile int*)0 = 1;\n  return cudaGetLastError();",
    )
    assert isinstance(compared(task, KNOWS + dies), Crashed)


def test_work_on_the_host_is_seen() -> None:
    task = find_task("silu_and_mul")
    works = task.baseline.replace(
        "  return cudaGetLastError();",
        "  volatile double sum = 0;\n"
        "  for (int i = 0; i < 1000000; ++i) sum = sum + i;\n"
        "  return cudaGetLastError();",
    )
    found = compared(task, works)
    assert isinstance(found, Refused) and "keeps the host busy" in found.findings[0].what


def test_a_baseline_is_captured_once_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fresh seeds, as in a confirmation, do not count."""
    started: list[str] = []
    worker = module.Worker

    def counted(child: str, **more: Any) -> Worker:
        started.append(child)
        return worker(child, **more)

    monkeypatch.setattr(module, "Worker", counted)
    task, device = find_task("silu_and_mul"), pick_device("cuda")
    baseline = build(task, task.baseline, device)
    assert isinstance(baseline, Build)
    runner = Runner(task, device)
    with oracle_of(task) as oracle:
        for seed in (1, 2):
            cases = [case.model_copy(update={"seed": seed}) for case in task.check[:2]]
            oracle_cases = oracle.oracle_cases(cases, Stop())
            assert launches_otherwise(runner, baseline, oracle_cases, baseline) is None
    assert len(started) == 3 and len(runner.known.host_us) == 2
