"""The estimate against the judge's measurements of the three tasks, from recorded runs on an H200.

    python -m lab.virtual_gpu.calibration.tasks count   # counters of every point, again
    python -m lab.virtual_gpu.calibration.tasks         # estimates and their order

A point is a candidate that was timed in a scripted run, the paper's start among them, and a case of
at most MAX_ELEMENTS. judged.jsonl, in ../recorded.tar.xz, holds what was measured, of candidate
and baseline side by side, and what the virtual GPU counts of both.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.recordings.reading import read_recorded
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.types import Case, candidate_id
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.model.estimate import Estimate, estimate
from astra_vgpu.model.ratio_interval import JUDGED_LAUNCH_US, judged
from astra_vgpu.types import Dim3, Launch, LaunchReport
from lab.virtual_gpu.validation.counted import Counted, on_file, read_report, read_rows, stored
from lab.virtual_gpu.validation.score import Scored, score

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
JUDGED = "judged.jsonl"
MAX_ELEMENTS = 2**22
EXAMPLES = ROOT / "transcripts/recorded.tar.xz/examples"
RUNS = {
    "silu_and_mul": ROOT / "transcripts/examples/silu_and_mul-h200.jsonl.xz",
    "fused_add_rmsnorm": EXAMPLES / "h200/fused_add_rmsnorm.jsonl",
    "merge_state_v2": EXAMPLES / "h200/merge_state_v2.jsonl",
}

Calls = dict[str, dict[str, Any]]
"""What was counted, by case: resources and reports."""


@dataclass(frozen=True)
class JudgedPoint:
    """One case of a candidate beside its baseline, as the judge measured them on an H200."""

    task: str
    candidate: str
    case: str
    candidate_us: float
    baseline_us: float
    ratio: float
    of_candidate: Counted
    of_baseline: Counted

    @property
    def start(self) -> bool:
        """Whether it is the kernel that the paper started from, another algorithm: as it was
        when it was measured, whatever paper.cu has become."""
        return self.candidate == str(_start(self.task)["candidate"])

    def estimates(self, launch_us: float = JUDGED_LAUNCH_US) -> tuple[Estimate, Estimate]:
        """Estimates of candidate and baseline, as the judge makes them if it adds so much to a
        launch."""
        candidate, baseline = (
            judged(
                estimate(call.reports, call.resources, spec("h200")),
                len(call.reports),
                launch_us=launch_us,
            )
            for call in (self.of_candidate, self.of_baseline)
        )
        return candidate, baseline


@cache
def _start(task: str) -> dict[str, Any]:
    """The evaluation of the paper's start on the H200."""
    found = json.loads(read_recorded(EXAMPLES / "h200" / f"{task}-paper.json"))
    return dict(found["evaluation"])


def recorded(task: Task) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Source and timed cases of every candidate, each once, but for the baseline itself."""
    path = RUNS[task.name]
    events = [json.loads(line)["event"] for line in read_recorded(path).splitlines()]
    texts = {e["sha256"][:12]: e["text"] for e in events if e["kind"] == "blob"}
    paper = (task.folder / "paper.cu").read_text()
    texts[candidate_id(paper)] = paper
    judged = [_start(task.name), *(e["evaluation"] for e in events if e["kind"] == "judged")]
    timed = {e["candidate"]: e["outcome"] for e in judged if e["outcome"]["kind"] == "timed"}
    timed.pop(candidate_id(task.baseline), None)
    for candidate, outcome in timed.items():
        if candidate in texts:
            yield texts[candidate], outcome["cases"]


def count(name: str) -> Iterator[dict[str, Any]]:
    """The rows of judged.jsonl of one task."""
    task = find_task(name)
    oracle, runner = Oracle(task), Runner(task, pick_device("virtual", "h200"))
    baselines: Calls = {}
    try:
        for source, timed in recorded(task):
            rows = [r for r in timed if math.prod(r["case"]["dims"].values()) <= MAX_ELEMENTS]
            cases = [Case.model_validate(row["case"]) for row in rows]
            baselines = baselines or _counted(runner, oracle, task.baseline, cases)
            counted = _counted(runner, oracle, source, cases)
            for row, case in zip(rows, cases, strict=True):
                yield {
                    "task": name,
                    "candidate": candidate_id(source),
                    "case": case.label,
                    "candidate_us": row["median_us"],
                    "baseline_us": row["baseline_us"],
                    "ratio": row["ratio"],
                    "of_candidate": counted[case.label],
                    "of_baseline": baselines[case.label],
                }
    finally:
        oracle.close()


def _counted(runner: Runner, oracle: Oracle, source: str, cases: Sequence[Case]) -> Calls:
    built = build(runner.task, source, runner.device)
    assert isinstance(built, Build), built
    oracle_cases = oracle.oracle_cases(cases, Stop())
    found: Calls = {}
    plans = runner.record(built, [one.case for one in oracle_cases])
    resources = {r.kernel: (r.registers, r.static_shared_bytes) for r in built.resources}
    for plan, run in zip(plans, runner.run(built, oracle_cases, "time"), strict=True):
        assert isinstance(run, CaseRun) and isinstance(plan, LaunchPlan), run
        reports = [
            LaunchReport(
                Launch(
                    node.kernel, Dim3(*node.grid), Dim3(*node.block), node.dynamic_shared_bytes, b""
                ),
                round(math.prod(node.grid) / counted.scale),
                counted.counters,
            )
            for node, counted in zip(plan.kernels, run.report.launches, strict=True)
        ]
        found[run.oracle_case.case.label] = {
            "resources": {r.launch.kernel: resources[r.launch.kernel] for r in reports},
            "reports": [stored(report) for report in reports],
        }
    return found


def judged_points() -> list[JudgedPoint]:
    """Every point on file."""
    rows = read_rows(on_file(HERE, JUDGED))
    return [
        JudgedPoint(
            **{
                **row,
                "of_candidate": _read(row["of_candidate"]),
                "of_baseline": _read(row["of_baseline"]),
            }
        )
        for row in rows
    ]


def _read(found: dict[str, Any]) -> Counted:
    return Counted(
        tuple(read_report(report) for report in found["reports"]),
        {kernel: tuple(used) for kernel, used in found["resources"].items()},
    )


def scored(points: Sequence[JudgedPoint]) -> list[Scored]:
    """Candidates, and once a case the baseline."""
    found = {
        (point.case, kernel): Scored(
            point.case, f"{point.task} {kernel} {point.case}", measured_us, call.us
        )
        for point in points
        for kernel, measured_us, call in zip(
            (point.candidate, "baseline"),
            (point.candidate_us, point.baseline_us),
            point.estimates(),
            strict=True,
        )
    }
    return list(found.values())


def main(what: str = "") -> None:
    if what == "count":
        with (HERE / JUDGED).open("w") as out:
            for name in RUNS:
                for row in count(name):
                    print(json.dumps(row), file=out)
    for name in RUNS:
        found = scored([point for point in judged_points() if point.task == name])
        for each in found:
            print(
                f"{each.name:64}{each.measured_us:9.2f}{each.estimated_us:9.2f}{each.error:+6.0%}"
            )
        print(f"{name}: {score(found)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
