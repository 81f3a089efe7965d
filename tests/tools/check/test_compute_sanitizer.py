"""Compute Sanitizer's logs, read; under `-m gpu` its four tools over kernels with planted bugs."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import indent
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check import compute_sanitizer as module
from astra_chat.tools.check.compute_sanitizer import first_finding, sanitize_cuda
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device, virtual_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case, Crashed, TimedOut, Unsafe, Wrong
from astra_vgpu.ground.errors import MissingDependency

MEMCHECK = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at void silu<float>(T1 *, const T1 *, long, long)+0x2a0 in kernel.cu:15
=========     by thread (31,0,0) in block (2,0,0)
=========     Access at 0x7f3e0a200a00 is out of bounds
=========     Saved host backtrace up to driver entry point at kernel launch time
=========
========= ERROR SUMMARY: 1 error
"""
RACECHECK = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at void k(float *)+0x40 in kernel.cu:7
=========     and Read access at void k(float *)+0x60 in kernel.cu:9 [128 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
TASK = find_task("silu_and_mul")


def test_a_finding_is_named_with_its_line_and_thread() -> None:
    what, where = first_finding(MEMCHECK) or ("", "")
    assert what == "Invalid __global__ write of size 4 bytes"
    assert where == "void silu<float>, kernel.cu:15, by thread (31,0,0) in block (2,0,0)"


def test_both_sides_of_a_race_are_named() -> None:
    what, where = first_finding(RACECHECK) or ("", "")
    assert (
        what.startswith("Error: Race reported")
        and where == "void k, kernel.cu:7, void k, kernel.cu:9"
    )


def test_a_clean_log_has_no_finding() -> None:
    clean = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
    assert first_finding(clean) is None


NAMED_LIKE_A_SUMMARY = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at ERROR SUMMARY<1>(float *)+0x40 in kernel.cu:7
=========     and Read access at ERROR SUMMARY<1>(float *)+0x60 in kernel.cu:9 [128 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""


def test_a_name_that_a_candidate_chose_hides_no_finding() -> None:
    """A function SUMMARY<1> that returns an ERROR."""
    what, where = first_finding(NAMED_LIKE_A_SUMMARY) or ("", "")
    assert what.startswith("Error: Race") and "kernel.cu:7" in where


def test_what_a_summary_counts_is_a_finding_though_no_line_tells_it() -> None:
    counted = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 2 errors\n"
    assert first_finding(counted) == ("ERROR SUMMARY: 2", "place unknown")
    raced = "========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)\n"
    assert first_finding(raced) is not None


TOOL = """#!{python}
import re, sys
request, log = sys.stdin.read(), sys.argv[sys.argv.index("--log-file") + 1]
import json
asked = json.loads(request)["request"]
{body}
open(log, "w").write("========= COMPUTE-SANITIZER\\n========= ERROR SUMMARY: 0 errors\\n")
"""
HANDS_BACK = """
from astra_chat.tools.task.buffer_layout import buffer_bytes
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.types import Case
import pathlib
task = load_task(pathlib.Path(asked["task"]))
for call in asked["calls"]:
    case = Case.model_validate(call["case"])
    for arg in task.args:
        given = pathlib.Path(call["inputs"]) / f"{arg.name}.in"
        left = given.read_bytes() if given.is_file() else bytes(buffer_bytes(arg, case))
        (pathlib.Path(call["after"]) / f"{arg.name}.after").write_bytes(3 * left)
"""


def watched_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, other: str = ""
) -> object:
    """What is said of a candidate and a tool of Python that does `body` in the place of one that
    needs a GPU; for the baseline it does `other`."""
    device = virtual_device("h200")
    other_code = f"{TASK.baseline}\n__device__ int of_the_candidate;\n"
    built, baseline = (build(TASK, source, device) for source in (other_code, TASK.baseline))
    assert isinstance(built, Build) and isinstance(baseline, Build)
    both = "if b'of_the_candidate' not in open(asked['cubin'], 'rb').read():\n"
    both += indent(other or "pass", "    ")
    both += f"\nelse:\n{indent(body or 'pass', '    ')}\n"
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(TOOL.format(python=sys.executable, body=both))
    tool.chmod(0o755)
    monkeypatch.setattr(module, "find_tool", lambda _: tool)
    oracle = Oracle(TASK)
    try:
        oracle_cases = oracle.oracle_cases(
            [Case(dims={"tokens": 3, "d": 264}, dtype="float16")], Stop()
        )
        return sanitize_cuda(Runner(TASK, device), built, oracle_cases, baseline=baseline)
    finally:
        oracle.close()


SYNCCHECK = """========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in {of}.
=========     at two_sites(int *)+0x100 in kernel.cu:2
=========     by thread (0,0,0) in block (1,0,0)
=========     Saved host backtrace up to driver entry point at kernel launch time
=========
========= ERROR SUMMARY: 1 error
"""


def test_a_report_of_anything_else_counts_before_that_of_two_places() -> None:
    block, warp = (SYNCCHECK.format(of=of) for of in ("block", "warp"))
    what, where = first_finding(block + warp) or ("", "")
    assert what.endswith("thread(s) in warp.") and "kernel.cu:2" in where
    what, _ = first_finding(block) or ("", "")
    assert what.startswith(module.SITES)


@pytest.mark.second_tier
def test_barriers_at_two_places_are_told_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TOOLS", ("synccheck",))
    logged = f"open(log, 'w').write({SYNCCHECK.format(of='block')!r})\nsys.exit(0)"
    found = watched_by(tmp_path, monkeypatch, logged)
    assert isinstance(found, Unsafe) and "barrier.sync" in found.what


@pytest.mark.second_tier
def test_who_does_nothing_where_it_is_watched_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = watched_by(tmp_path, monkeypatch, HANDS_BACK)
    assert isinstance(found, Wrong) and "called under compute-sanitizer memcheck" in found.note


@pytest.mark.second_tier
def test_who_ends_where_it_is_watched_crashed_if_the_baseline_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = HANDS_BACK.replace("bytes(buffer_bytes(arg, case))", "ANSWER")
    oracle = Oracle(TASK)
    oracle_case = oracle.oracle_cases(
        [Case(dims={"tokens": 3, "d": 264}, dtype="float16")], Stop()
    )[0]
    answer = np.asarray(oracle_case.expected(TASK.args[0])).astype(np.float16).tobytes()
    oracle.close()
    found = watched_by(tmp_path, monkeypatch, "", f"ANSWER = {answer!r}\n{right}")
    assert isinstance(found, Crashed) and "although the baseline ran" in found.message
    with pytest.raises(MissingDependency, match="did not work"):
        watched_by(tmp_path, monkeypatch, "", "")


LATE = module._Failed("no end", TimedOut(step="sanitize", limit_s=2.0))
ENDED = module._Failed("no summary")


def tried(monkeypatch: pytest.MonkeyPatch, *found: object) -> object:
    """What is said of a candidate where the tool finds these, one after the other: twice with the
    candidate, then with the baseline, which must come second to last."""
    builds, left = ["candidate", "candidate", "baseline", "candidate"], list(found)

    def once(runner: object, build: object, *_: object) -> object:
        assert build == builds.pop(0)
        return left.pop(0)

    monkeypatch.setattr(module, "_once", once)
    oracle_cases: Any = [SimpleNamespace(case=Case(dims={"tokens": 3}, dtype="float16"))]
    nothing: Any = None
    said: Any = module._run(
        nothing,
        "candidate",
        oracle_cases,
        Path(),
        "memcheck",
        "baseline",  # type: ignore[arg-type]
    )
    assert not left
    return said


def test_a_tool_that_fails_is_tried_again_with_the_baseline_and_with_the_candidate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The baseline ends in the end, as the machine was busy, or as the candidate is at fault."""
    assert tried(monkeypatch, LATE, None) is None
    assert tried(monkeypatch, LATE, ENDED, None, None) is None
    assert tried(monkeypatch, ENDED, ENDED, None, LATE) == LATE.late
    assert isinstance(tried(monkeypatch, LATE, LATE, None, ENDED), Crashed)


def test_a_tool_waits_for_a_process_that_waits_and_shares_its_ports() -> None:
    command = module._command(Path("compute-sanitizer"), "memcheck")
    assert command[command.index("--launch-timeout") + 1] == "0"
    assert command[command.index("--max-connections") + 1] == "1000"


def test_a_finding_stays_where_the_tool_does_not_work_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The tool looks for the one of several cases that shows the finding."""
    finding = Unsafe(case=Case(dims={}, dtype="float16"), what="memcheck: x", where="")
    monkeypatch.setattr(module, "find_tool", Path)
    monkeypatch.setattr(module, "TOOLS", ("memcheck",))
    monkeypatch.setattr(
        module, "_once", lambda _, build, cases, *__: finding if len(cases) > 1 else ENDED
    )
    nothing: Any = None
    runner: Any = SimpleNamespace(stop=Stop())
    assert sanitize_cuda(runner, nothing, [nothing, nothing]) == finding


@pytest.mark.second_tier
def test_a_tool_that_does_not_end_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TOOL_TIMEOUT_S", 2.0)
    monkeypatch.setattr(module, "TOOLS", ("memcheck",))
    hangs = "import time; time.sleep(60)"
    with pytest.raises(
        MissingDependency, match="memcheck did not work: it did not finish within 2 s"
    ):
        watched_by(tmp_path, monkeypatch, hangs, hangs)


def sanitized(source: str) -> module.Found | None:
    device = pick_device("cuda")
    built = build(TASK, source, device)
    assert isinstance(built, Build), built
    oracle = Oracle(TASK)
    oracle_cases = oracle.oracle_cases(
        [Case(dims={"tokens": 3, "d": 264}, dtype="float16")], Stop()
    )
    try:
        return sanitize_cuda(Runner(TASK, device), built, oracle_cases)
    finally:
        oracle.close()


@pytest.mark.gpu
def test_an_honest_kernel_passes_all_four(scalar: str) -> None:
    assert sanitized(scalar) is None


@pytest.mark.gpu
def test_a_write_past_the_end_is_found(scalar: str) -> None:
    bad = scalar.replace("  out[i] =", "  out[i + 4096] = T(0.f);\n  out[i] =")
    outcome = sanitized(bad)
    assert (
        isinstance(outcome, Unsafe) and "memcheck" in outcome.what and "kernel.cu" in outcome.where
    )


@pytest.mark.gpu
def test_a_race_is_found(scalar: str) -> None:
    racy = scalar.replace(
        "  out[i] =",
        "  __shared__ volatile float tile[256];\n  tile[threadIdx.x] = gate;\n"
        "  if (tile[(threadIdx.x + 64) % 256] == 12345.f) return;\n  out[i] =",
    )
    outcome = sanitized(racy)
    assert isinstance(outcome, Unsafe) and "racecheck" in outcome.what


@pytest.mark.gpu
@pytest.mark.parametrize("inside", ["warp", "block"])
def test_barriers_at_two_places_are_told_as_those_of_a_warp_or_a_block(
    scalar: str, inside: str
) -> None:
    part = "threadIdx.x & 1" if inside == "warp" else "threadIdx.x & 32"
    meet = 'asm volatile("bar.sync 0;" ::: "memory");'
    both = f"  if ({part}) {meet} else {meet}\n  out[i] ="
    outcome = sanitized(scalar.replace("  out[i] =", both))
    assert isinstance(outcome, Unsafe) and "synccheck" in outcome.what
    assert (module.SITES in outcome.what) == (inside == "block")
