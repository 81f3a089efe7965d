"""Launch plans of a candidate under a tool of NVIDIA's: Nsight Compute or Compute Sanitizer.

The tool stands between the judge and the runner, so there is no private pipe: the request comes by
standard input, the tool's findings are in its log. What a candidate prints is neither. The sandbox
is a runner's, except for the socket through which the tool talks to its target, and root's
privileges, which performance counters need.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CaseReport, CudaRequest, SanitizedRequest
from astra_chat.tools.run.requests import Batch
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import StepTimeout
from astra_chat.tools.types import TimedOut

CHILD = "astra_chat.tools.runners.cuda_once"


def as_sanitized(request: CudaRequest) -> CudaRequest:
    """What cuda_once reads, where no results are handed back."""
    return request.extended(SanitizedRequest)


@dataclass(frozen=True)
class NvidiaToolRun:
    """The tool's results."""

    log: str
    """The file that it wrote; what was printed where it wrote none."""
    output: str
    """Tail of what tool and candidate printed."""
    runs: tuple[CaseRun, ...] = ()
    """Where a child that hands back results put them, case by case; gone with the context."""


def run_watched(
    runner: Runner,
    build: Build,
    oracle_cases: Sequence[OracleCase],
    command: Sequence[str],
    *,
    step: Literal["sanitize", "profile"],
    timeout_s: float,
    alone: bool = False,
) -> NvidiaToolRun | Failure:
    """Call the launcher on these cases, twice on each, under a tool: its full path and options.

    `alone`: no other process measures on the GPU in the meantime. Raises Cancelled.
    """
    with watched(
        runner, build, oracle_cases, command, step=step, timeout_s=timeout_s, alone=alone
    ) as seen:
        return seen


@contextmanager
def watched(
    runner: Runner,
    build: Build,
    oracle_cases: Sequence[OracleCase],
    command: Sequence[str],
    *,
    step: Literal["sanitize", "profile", "time"],
    timeout_s: float,
    alone: bool = False,
    child: str = CHILD,
    ask: Callable[[CudaRequest], CudaRequest] = as_sanitized,
) -> Iterator[NvidiaToolRun | Failure]:
    """Call the launcher on these cases under a tool, as `run_watched` does, with any `child`, whose
    request `ask` makes; the results last as long as this context.

    Raises Cancelled.
    """
    calls = runner.planned(build, oracle_cases)
    if not isinstance(calls, list):
        yield calls
        return
    tool = runner.pool.take_tool(command, child, partial(_policy, runner, command, oracle_cases))
    try:
        cubin = Path(shutil.copy(build.cubin, tool.builds))
        request = runner.request(Batch(build, calls, "profile"), tool.scratch, cubin)
        fields = ask(request).model_dump(mode="json")
        envelope = json.dumps({"fd": -1, "nonce": "", "request": fields}).encode()
        try:
            with runner.leased(step, alone=alone):
                end = tool.program.finish(envelope, timeout_s, runner.stop)
        except (StepMemory, StepTimeout):
            yield TimedOut(step=step, limit_s=timeout_s)
            return
        log = tool.log()
        runs = (
            CaseRun(
                oracle_case,
                call.after,
                CaseReport(),
                call.pattern,
                runner.seed.of("judge", step, call.turn),
            )
            for oracle_case, call in zip(oracle_cases, request.calls, strict=True)
        )
        yield NvidiaToolRun(end.output if log is None else log, end.output, tuple(runs))
    finally:
        tool.close()


def prepare(
    runner: Runner, command: Sequence[str], inputs: Path, *, child: str = CHILD, count: int = 1
) -> None:
    """Start the tool and its child for a run to come, until `count` wait: that takes seconds, and
    touches no GPU. `inputs` as of `Runner.prepare`. Raises MissingDependency without the tool."""
    sandbox = partial(_sandbox, runner, command, (inputs,))
    runner.pool.prepare_tool(command, child, count, sandbox)


def _policy(
    runner: Runner,
    command: Sequence[str],
    oracle_cases: Sequence[OracleCase],
    builds: Path,
    scratch: Path,
) -> SandboxPolicy:
    return _sandbox(runner, command, runner.inputs(oracle_cases), builds, scratch)


def _sandbox(
    runner: Runner, command: Sequence[str], inputs: Sequence[Path], builds: Path, scratch: Path
) -> SandboxPolicy:
    """Returns the sandbox of a runner that reads these inputs, with what the tool needs itself."""
    program = Path(command[0]).resolve().parent.parent
    policy = runner.policy((builds, *inputs, program), scratch)
    return replace(policy, network=True, privileges=True)
