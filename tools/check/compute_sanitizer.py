"""NVIDIA's Compute Sanitizer over a candidate on a real GPU; the virtual GPU has its own sanitizer.

Each tool runs the candidate in a runner of its own, on few and small cases: it slows a kernel by a
factor of ten to a thousand. The outputs of these calls are compared too, because a kernel that does
nothing under the tool has no findings. Source: "Compute Sanitizer" documentation, NVIDIA.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.check.compare import compare
from astra_chat.tools.run.case_run import CaseRun, odd_file
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.nvidia_tools import NvidiaToolRun, prepare, watched
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CaseReport, SanitizedRequest
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.task.buffer_layout import buffer_bytes
from astra_chat.tools.types import Crashed, TimedOut, Unsafe, Wrong
from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.toolkit import find_tool

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
TOOL_TIMEOUT_S = 180.0
WAIT = ["--launch-timeout", "0"]
"""Options that keep a tool waiting until the process initializes CUDA. By default it gives up after
60 s, and the process then waits for it without end. Ours waits for its request while the check runs
(`prepare_sanitizers`)."""
PORTS = ["--max-connections", "1000"]
"""Options for the number of ports, of which a tool takes one; the default is ten, which all tools
of a machine share."""
APART = ["--padding", "512"]
"""Bytes of nobody's memory behind each allocation: without them, a write behind one may lie in the
next, where memcheck takes it for valid."""
TRIES = 2
CALLS = 3
"""Calls of each case in the sanitized process (runners/cuda_once.py)."""
HANDED_BACK_BYTES = 64 * 2**20
"""Most bytes that a call may leave for the results of its case to be handed back and compared."""
SITES = "Barrier error detected. Divergent thread(s) in block"
"""synccheck's report where warps of a block come to a barrier by different instructions, or some do
not come. PTX allows the former (only the threads of one warp have to come together), and
warp-specialized kernels do it: seen on an H100 for bar.sync with and without a count, not for
barrier.sync. A report of anything else counts before it."""
ADVICE = "; barrier.sync, or one barrier instruction for all warps, does not cause this report"
_PREFIX = "========= "
_NOISE = re.compile(
    r"COMPUTE-SANITIZER|(ERROR|RACECHECK|LEAK) SUMMARY: |Saved host|Target application"
)
"""How lines begin that report nothing. Further on stand names that a candidate chose."""
_SUMMARY = re.compile(rf"^{_PREFIX}(?:ERROR|RACECHECK) SUMMARY: (?P<count>\d+)", re.MULTILINE)
_WHERE = re.compile(r"\bat (?P<kernel>.+?)\+0x[0-9a-f]+(?: in (?P<file>[^\s:]+):(?P<line>\d+))?")


Found = Wrong | Failure


def prepare_sanitizers(runner: Runner, inputs: Path) -> None:
    """Start what `sanitize_cuda` needs (run/nvidia_tools.py)."""
    program = find_tool("compute-sanitizer")
    for tool in TOOLS:
        prepare(runner, _command(program, tool), inputs)


def sanitize_cuda(
    runner: Runner,
    build: Build,
    oracle_cases: Sequence[OracleCase],
    timed: Sequence[OracleCase] = (),
    on_tool: Callable[[int], None] = lambda _: None,
    baseline: Build | None = None,
) -> Found | None:
    """The first finding, or None: all tools side by side on `oracle_cases`, memcheck on the `timed`
    cases as well.

    In timing, arguments lie beside those of other launches, and a kernel that reads what is not
    its own may find something of use: here nothing is beside them. Raises MissingDependency without
    the tools, and where one does not work or does not end, unless it does with `baseline`: then the
    candidate is at fault.
    """
    program, findings = find_tool("compute-sanitizer"), list[Found]()

    def under(tool: str) -> Found | None:
        cases = [*oracle_cases, *(timed if tool == "memcheck" else ())]
        finding = _run(runner, build, cases, program, tool, baseline)
        if isinstance(finding, Unsafe) and len(cases) > 1:
            return _named(runner, build, cases, program, tool) or finding
        return finding

    with ThreadPoolExecutor() as pool, runner.stop.on_ctrl_c():
        for done, finding in enumerate(pool.map(under, TOOLS), 1):
            findings += [finding] if finding else []
            on_tool(done)
    return findings[0] if findings else None


def _named(
    runner: Runner, build: Build, oracle_cases: Sequence[OracleCase], program: Path, tool: str
) -> Found | None:
    """The finding again, on the first case by itself that shows it; where the tool does not work,
    it stays without a case."""
    with suppress(MissingDependency):
        alone = (_run(runner, build, [oracle_case], program, tool) for oracle_case in oracle_cases)
        return next((finding for finding in alone if finding is not None), None)
    return None


def _run(
    runner: Runner,
    build: Build,
    oracle_cases: Sequence[OracleCase],
    program: Path,
    tool: str,
    baseline: Build | None = None,
) -> Found | None:
    """One process for all cases; the finding names the first of them.

    A tool that fails or does not end may have failed by itself: it is tried again, then with the
    baseline, and where that ends, once more.
    """
    failed = ""
    for _ in range(TRIES):
        found = _once(runner, build, oracle_cases, program, tool)
        if not isinstance(found, _Failed):
            return found
        failed = found.how
    if baseline is None or _run(runner, baseline, oracle_cases, program, tool) is not None:
        raise MissingDependency(f"compute-sanitizer {tool} did not work: {failed}")
    found = _once(runner, build, oracle_cases, program, tool)
    if not isinstance(found, _Failed):
        return found
    if found.late:
        return found.late
    message = f"it crashed under compute-sanitizer {tool}, although the baseline ran"
    return Crashed(case=oracle_cases[0].case, message=message)


@dataclass(frozen=True)
class _Failed:
    """A tool that said nothing about the kernel."""

    how: str
    late: TimedOut | None = None


def _once(
    runner: Runner, build: Build, oracle_cases: Sequence[OracleCase], program: Path, tool: str
) -> Found | _Failed | None:
    back = [_bytes(runner, oracle_case) <= HANDED_BACK_BYTES for oracle_case in oracle_cases]
    with watched(
        runner,
        build,
        oracle_cases,
        _command(program, tool),
        step="sanitize",
        timeout_s=TOOL_TIMEOUT_S,
        ask=lambda asked: asked.extended(SanitizedRequest, handed_back=tuple(back)),
    ) as seen:
        if isinstance(seen, TimedOut) and seen.step == "sanitize":
            return _Failed(
                f"it did not finish within {seen.limit_s:.0f} s, or used too much memory", seen
            )
        if not isinstance(seen, NvidiaToolRun):
            return seen
        if finding := first_finding(seen.log):
            what, where = finding
            words = f"{tool}: {what}{ADVICE if what.startswith(SITES) else ''}"
            return Unsafe(case=oracle_cases[0].case, what=words, where=where)
        pairs = list(zip(seen.runs, back, strict=True))
        if "SUMMARY: " in seen.log and all(_is_whole(runner, *pair) for pair in pairs):
            judged = (_wrong(runner, run, tool) for run, handed in pairs if handed)
            return next(filter(None, judged), None)
        return _Failed((seen.log + seen.output)[-300:])


def _command(program: Path, tool: str) -> list[str]:
    # What the driver is asked and refuses is no fault of a kernel: the bindings ask what there is.
    own = ["--report-api-errors", "no", *APART] if tool == "memcheck" else []
    return [str(program), "--tool", tool, "--target-processes", "all", *WAIT, *PORTS, *own]


def _bytes(runner: Runner, oracle_case: OracleCase) -> int:
    return sum(buffer_bytes(arg, oracle_case.case) for arg in runner.task.args)


def _is_whole(runner: Runner, run: CaseRun, handed: bool) -> bool:
    """Whether the process lived to hand all back: empty files where nothing is."""
    calls = CALLS if handed else 0
    return odd_file(run.folder, runner.task.args, run.oracle_case.case, calls) is None


def _wrong(runner: Runner, run: CaseRun, tool: str) -> Wrong | None:
    verdict = compare(runner.task, replace(run, report=CaseReport(copies=CALLS)))
    if not isinstance(verdict, Wrong):
        return None
    note = f"{verdict.note}; called under compute-sanitizer {tool}".removeprefix("; ")
    return verdict.model_copy(update={"note": note})


def first_finding(log: str) -> tuple[str, str] | None:
    """What the first report of a log says, and where; None where there is none.

    What the summary counts is one, though no line should tell it.
    """
    counted = next((m for m in _SUMMARY.finditer(log) if int(m["count"])), None)
    lines = [line.removeprefix(_PREFIX) for line in log.splitlines() if line.startswith(_PREFIX)]
    reports = [i for i, line in enumerate(lines) if line[:1].strip() and not _NOISE.match(line)]
    if not reports:
        return (counted[0].removeprefix(_PREFIX), "place unknown") if counted else None
    first = next((i for i in reports if not lines[i].startswith(SITES)), reports[0])
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
