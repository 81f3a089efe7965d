"""NVIDIA's Compute Sanitizer over a candidate on a real GPU; the virtual GPU carries its own.

Each tool runs the candidate in a runner of its own, on few and small cases: it slows a kernel by a
factor of ten to a thousand. Source: "Compute Sanitizer" documentation, NVIDIA.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from astra_chat.tools.build import Build
from astra_chat.tools.errors import EnvironmentLack
from astra_chat.tools.oracle import Truth
from astra_chat.tools.runner import Runner
from astra_chat.tools.toolkit import find_tool
from astra_chat.tools.types import TimedOut, Unsafe
from astra_chat.tools.watched import run_watched

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
TOOL_TIMEOUT_S = 180.0
_PREFIX = "========= "
_NOISE = re.compile(
    r"COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY|Saved host|Target application"
)
_WHERE = re.compile(r"\bat (?P<kernel>.+?)\+0x[0-9a-f]+(?: in (?P<file>[^\s:]+):(?P<line>\d+))?")


def sanitize_cuda(
    runner: Runner,
    build: Build,
    truths: Sequence[Truth],
    timed: Sequence[Truth] = (),
    on_tool: Callable[[int], None] = lambda _: None,
) -> Unsafe | TimedOut | None:
    """The first finding, or None: all tools on `truths`, memcheck on the `timed` cases as well.

    In timing, arguments lie beside those of other launches, and a kernel that reads what is not
    its own may find something of use: here nothing is beside them. Raises EnvironmentLack without
    the tools.
    """
    program = find_tool("compute-sanitizer")
    for done, tool in enumerate(TOOLS, 1):
        cases = [*truths, *(timed if tool == "memcheck" else ())]
        finding = _run(runner, build, cases, program, tool)
        if isinstance(finding, Unsafe) and len(cases) > 1:
            finding = _named(runner, build, cases, program, tool) or finding
        if finding is not None:
            return finding
        on_tool(done)
    return None


def _named(
    runner: Runner, build: Build, truths: Sequence[Truth], program: Path, tool: str
) -> Unsafe | TimedOut | None:
    """The finding again, on the first case by itself that shows it."""
    alone = (_run(runner, build, [truth], program, tool) for truth in truths)
    return next((finding for finding in alone if finding is not None), None)


def _run(
    runner: Runner, build: Build, truths: Sequence[Truth], program: Path, tool: str
) -> Unsafe | TimedOut | None:
    """One process for all cases; the finding names the first of them."""
    command = [str(program), "--tool", tool, "--target-processes", "all"]
    seen = run_watched(runner, build, truths, command, step="sanitize", timeout_s=TOOL_TIMEOUT_S)
    if isinstance(seen, TimedOut):
        return seen
    if "SUMMARY: " not in seen.log:
        said = (seen.log + seen.output)[-300:]
        raise EnvironmentLack(f"compute-sanitizer {tool} did not work: {said}")
    if found := first_finding(seen.log):
        what, where = found
        return Unsafe(case=truths[0].case, what=f"{tool}: {what}", where=where)
    return None


def first_finding(log: str) -> tuple[str, str] | None:
    """What the first report of a log says, and where; None where there is none."""
    lines = [line.removeprefix(_PREFIX) for line in log.splitlines() if line.startswith(_PREFIX)]
    reports = [i for i, line in enumerate(lines) if line[:1].strip() and not _NOISE.search(line)]
    if not reports:
        return None
    first = reports[0]
    details = []
    for line in lines[first + 1 :]:
        if not line.startswith(" "):
            break
        details.append(line.strip())
    places = [place for text in (lines[first], *details) if (place := _place(text))]
    threads = [text for text in details if text.startswith("by thread")]
    return lines[first].strip(), ", ".join([*places[:2], *threads[:1]]) or "place unknown"


def _place(text: str) -> str:
    match = _WHERE.search(text)
    if match is None:
        return ""
    kernel = match["kernel"].split("(")[0]
    return f"{kernel}, {Path(match['file']).name}:{match['line']}" if match["file"] else kernel
