"""Calls of a candidate under a tool of NVIDIA's: Nsight Compute or Compute Sanitizer.

The tool stands between us and the runner, so there is no private pipe: the request is a line on a
pipe with a name, and what the tool saw lies in its log. What a candidate prints is neither. The
walls are a runner's, but for the socket through which the tool talks to the process that it
watches, and root's privileges, which performance counters need.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from astra_chat.tools.build import Build
from astra_chat.tools.oracle import Truth
from astra_chat.tools.process import StepMemory, StepTimeout
from astra_chat.tools.runner import CaseRun, Runner
from astra_chat.tools.sandbox.walls import Walls
from astra_chat.tools.types import TimedOut
from astra_chat.tools.waiting import Waiting

CHILD = "astra_chat.tools.children.cuda_once"
LOG = "log"


@dataclass(frozen=True)
class Watched:
    """What was left behind by the tool."""

    log: str
    """The file that it wrote; what was printed where it wrote none."""
    output: str
    """Tail of what tool and candidate printed."""
    runs: tuple[CaseRun, ...] = ()
    """Where a child that hands back results put them, case by case; gone with the context."""


def run_watched(
    runner: Runner,
    build: Build,
    truths: Sequence[Truth],
    command: Sequence[str],
    *,
    step: Literal["sanitize", "profile"],
    timeout_s: float,
    alone: bool = False,
) -> Watched | TimedOut:
    """Call the launcher on these cases, twice on each, under a tool: its full path and options.

    `alone`: nobody else measures on the GPU meanwhile. Raises Cancelled.
    """
    with watched(
        runner, build, truths, command, step=step, timeout_s=timeout_s, alone=alone
    ) as seen:
        return seen


@contextmanager
def watched(
    runner: Runner,
    build: Build,
    truths: Sequence[Truth],
    command: Sequence[str],
    *,
    step: Literal["sanitize", "profile", "time"],
    timeout_s: float,
    alone: bool = False,
    child: str = CHILD,
    more: Mapping[str, Any] | None = None,
) -> Iterator[Watched | TimedOut]:
    """The same with any `child`, whose request also says `more`; its results last as long as this.

    Raises Cancelled.
    """
    tool = runner.tools.pop((build.library, (*command, child)), None) or _started(
        runner, build, command, child,
        lambda scratch: runner.walls(build, truths, [scratch / "0"]),
    )  # fmt: skip
    try:
        request, folders = runner.request(build, truths, "profile", tool.folder)
        envelope = {"fd": -1, "nonce": "", "request": request | dict(more or {})}
        try:
            with runner.leased(step, alone=alone):
                end = tool.ask(json.dumps(envelope), timeout_s, runner.stop)
        except (StepMemory, StepTimeout):
            yield TimedOut(step=step, limit_s=timeout_s)
            return
        log = tool.folder / LOG
        text = log.read_text(errors="replace") if log.is_file() else end.output
        runs = (
            CaseRun(truth, left, {}, call["pattern"])
            for truth, left, call in zip(truths, folders, request["calls"], strict=True)
        )
        yield Watched(text, end.output, tuple(runs))
    finally:
        tool.close()


def prepare_watched(
    runner: Runner, build: Build, command: Sequence[str], inputs: Path, child: str = CHILD
) -> None:
    """Start a tool and its child, so that they load meanwhile; `Runner.dismiss` ends it if unused.

    The child touches no GPU and no candidate before it is asked. `inputs` is the folder in which
    the inputs will lie.
    """
    key = (build.library, (*command, child))
    if key not in runner.tools:
        runner.tools[key] = _started(
            runner, build, command, child,
            lambda scratch: runner.early_walls(build, inputs, scratch),
        )  # fmt: skip


def _started(
    runner: Runner,
    build: Build,
    command: Sequence[str],
    child: str,
    walls_of: Callable[[Path], Walls],
) -> Waiting:
    program = Path(command[0])

    def walls(scratch: Path) -> Walls:
        found = walls_of(scratch)
        return replace(
            found, network=True, privileges=True,
            read=(*found.read, program.resolve().parent.parent),
        )  # fmt: skip

    return Waiting(
        lambda scratch: [
            *command, "--log-file", str(scratch / LOG), sys.executable, "-m", child
        ],
        walls,
    )  # fmt: skip
