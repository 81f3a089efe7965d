"""The estimate against the judge's measurements of the three tasks, from recorded runs on an H200.

    python tests/tools/virtual_gpu/calibration/tasks.py [MAX_ELEMENTS]

For every candidate that was timed in transcripts/examples, baselines among them, and every case of
at most so many elements: the estimate, the time, and how pairs of one case are ordered.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case
from astra_chat.tools.virtual_gpu.devtools.validation.score import Scored, score

ROOT = Path(__file__).parents[4]
RUNS = {
    "silu_and_mul": "silu_and_mul-h200.jsonl",
    "fused_add_rmsnorm": "h200/fused_add_rmsnorm.jsonl",
    "merge_state_v2": "h200/merge_state_v2.jsonl",
}


def recorded(name: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Source and timed cases of every candidate, each once."""
    path = ROOT / "transcripts" / "examples" / RUNS[name]
    events = [json.loads(line)["event"] for line in path.read_text().splitlines()]
    texts = {e["sha256"]: e["text"] for e in events if e["kind"] == "blob"}
    seen = set()
    for event in events:
        if event["kind"] != "judged" or event["evaluation"]["outcome"]["kind"] != "timed":
            continue
        candidate = event["evaluation"]["candidate"]
        source = next((t for sha, t in texts.items() if sha.startswith(candidate)), None)
        if source and candidate not in seen:
            seen.add(candidate)
            yield source, event["evaluation"]["outcome"]["cases"]


def compared(name: str, most: int) -> Iterator[Scored]:
    task, device = find_task(name), pick_device("virtual", "h200")
    oracle = Oracle(task)
    for source, timed in recorded(name):
        small = [c for c in timed if math.prod(c["case"]["dims"].values()) <= most]
        cases = [Case.model_validate(c["case"]) for c in small]
        built = build(task, source, device)
        assert isinstance(built, Build)
        oracle_cases = oracle.oracle_cases(cases, Stop())
        for row, run in zip(
            small, Runner(task, device).run(built, oracle_cases, "time"), strict=True
        ):
            assert isinstance(run, CaseRun), run
            yield Scored(
                json.dumps(row["case"]), f"{name} {row['case']['dims']}", row["median_us"],
                run.report.estimated.us,
            )  # fmt: skip
    oracle.close()


def main(most: int = 2**22) -> None:
    for name in RUNS:
        found = list(compared(name, most))
        for each in found:
            print(
                f"{each.name:64}{each.measured_us:9.2f}{each.estimated_us:9.2f}{each.error:+6.0%}"
            )
        print(f"{name}: {score(found)}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
