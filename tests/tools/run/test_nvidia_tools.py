"""A tool round the runner: what it is given, what it may reach, and how its end is told."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.run import nvidia_tools as module
from astra_chat.tools.run.nvidia_tools import NvidiaToolRun, run_watched
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.types import TimedOut

TASK = load_task(Path(__file__).parents[2] / "attacks" / "tasks" / "row_sum")
TOOL = """
import sys
request, log = sys.stdin.read(), sys.argv[sys.argv.index("--log-file") + 1]
print("said by", sys.argv[-1])
{body}
"""


def watched(tmp_path: Path, body: str, timeout_s: float = 30.0) -> NvidiaToolRun | TimedOut:
    """A tool of Python, started as the real ones are, in place of one that needs a GPU."""
    device = virtual_device("h200")
    built = build(TASK, TASK.baseline, device)
    assert isinstance(built, Build)
    oracle, runner = Oracle(TASK), Runner(TASK, device)
    command = [sys.executable, "-c", TOOL.format(body=body)]
    try:
        oracle_cases = oracle.oracle_cases(TASK.check[:2], Stop())
        return run_watched(
            runner, built, oracle_cases, command, step="profile", timeout_s=timeout_s
        )
    finally:
        oracle.close()


def test_it_gets_the_request_and_writes_a_log(tmp_path: Path) -> None:
    seen = watched(tmp_path, "open(log, 'w').write(request)")
    assert isinstance(seen, NvidiaToolRun)
    assert seen.output == f"said by {module.CHILD}\n"
    asked = json.loads(seen.log)
    assert asked["fd"] == -1, "there is no private pipe through a tool"
    assert len(asked["request"]["calls"]) == 2


@pytest.mark.second_tier
def test_without_a_log_what_it_printed_is_the_log(tmp_path: Path) -> None:
    seen = watched(tmp_path, "print('no permission')")
    assert (
        isinstance(seen, NvidiaToolRun) and seen.log == seen.output and "no permission" in seen.log
    )


@pytest.mark.second_tier
def test_a_tool_that_hangs_is_stopped(tmp_path: Path) -> None:
    seen = watched(tmp_path, "import time; time.sleep(60)", timeout_s=1.0)
    assert seen == TimedOut(step="profile", limit_s=1.0)


@pytest.mark.second_tier
def test_one_that_was_prepared_waits_and_is_used(tmp_path: Path) -> None:
    """It starts before there is a request, in the run's own walls, and is taken by the next run."""
    device = virtual_device("h200")
    built = build(TASK, TASK.baseline, device)
    assert isinstance(built, Build)
    oracle, runner = Oracle(TASK), Runner(TASK, device)
    body = """
cubin = json.loads(request)["request"]["cubin"]
open(log, "w").write(cubin + " " + open(cubin, "rb").read(4).hex())
"""
    before = "import json, time; print('began', time.monotonic())"
    command = [sys.executable, "-c", before + TOOL.format(body=body)]
    try:
        oracle.prepare()
        module.prepare(runner, command, oracle.inputs, count=2)
        oracle_cases = oracle.oracle_cases(TASK.check[:2], Stop())
        time.sleep(2.0)
        asked = time.monotonic()
        seen = [
            run_watched(runner, built, oracle_cases, command, step="profile", timeout_s=30.0)
            for _ in range(3)
        ]
    finally:
        runner.dismiss()
        oracle.close()
    began = []
    for one in seen:
        assert isinstance(one, NvidiaToolRun)
        cubin, first = one.log.split()
        assert first == b"\x7fELF".hex() and not Path(cubin).exists()
        began.append(float(one.output.split()[1]))
    assert max(began[:2]) < asked < began[2], "two waited, the third was started"


@pytest.mark.second_tier
def test_it_stands_behind_walls(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("key")
    seen = watched(tmp_path, f"open(log, 'w').write(open({str(secret)!r}).read())")
    assert isinstance(seen, NvidiaToolRun)
    assert "PermissionError" in seen.output or "FileNotFoundError" in seen.output
