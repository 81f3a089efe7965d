"""Launch plans of a candidate under a tool of NVIDIA's: Nsight Compute or Compute Sanitizer.

The tool stands between the judge and the runner, so there is no private pipe: the request is in a
file, the tool's findings in its log. What a candidate prints is neither. The sandbox is a runner's,
except for the socket through which the tool talks to its target, and root's privileges, which
performance counters need.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.launch_plans import all_or_failure
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CaseReport, CudaRequest, SanitizedRequest
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import StepTimeout, run_limited
from astra_chat.tools.types import TimedOut

CHILD = "astra_chat.tools.children.cuda_once"


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
    """The same with any `child`, whose request `ask` makes; its results last as long as this.

    Raises Cancelled.
    """
    program, plans = Path(command[0]), all_or_failure(runner.plans(build, oracle_cases))
    if not isinstance(plans, list):
        yield plans
        return
    with (
        tempfile.TemporaryDirectory(prefix=f"astra-{program.name}-") as folder,
        runner.request(build, oracle_cases, "profile", plans) as request,
    ):
        scratch = Path(folder)
        log, asked = scratch / "log", scratch / "request.json"
        fields = ask(request).model_dump(mode="json")
        envelope = {"fd": -1, "nonce": "", "request": fields}
        asked.write_text(json.dumps(envelope))
        started = [*command, "--log-file", str(log), sys.executable, "-m", child]
        sandbox = runner.sandbox(build, oracle_cases, request.calls[0].after.parent)
        sandbox = replace(
            sandbox, network=True, privileges=True, write=(scratch, *sandbox.write),
            read=(*sandbox.read, program.resolve().parent.parent),
        )  # fmt: skip
        try:
            with runner.leased(step, alone=alone):
                end = run_limited(
                    ["/bin/sh", "-c", 'exec "$@" <"$0"', str(asked), *started],
                    timeout_s=timeout_s, sandbox=sandbox, cwd=scratch, stop=runner.stop,
                )  # fmt: skip
        except (StepMemory, StepTimeout):
            yield TimedOut(step=step, limit_s=timeout_s)
            return
        text = log.read_text(errors="replace") if log.is_file() else end.output
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
        yield NvidiaToolRun(text, end.output, tuple(runs))
