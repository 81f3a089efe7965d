"""Against what Nsight Compute counted on an H200, as recorded runs have it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.profiling import metrics as m
from astra_chat.tools.recordings.reading import read_recorded
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case

RECORDED = Path(__file__).parents[4] / "transcripts" / "examples" / "silu_and_mul-h200.jsonl.xz"
KERNELS = 2


@pytest.mark.second_tier
def test_machine_instructions_are_those_that_an_h200_executed() -> None:
    """The baseline, and the first candidate, each on the case that was profiled."""
    events = [json.loads(line)["event"] for line in read_recorded(RECORDED).splitlines()]
    sources = {e["sha256"]: e["text"] for e in events if e["kind"] == "blob"}
    evaluations = [e["evaluation"] for e in events if e.get("evaluation")]
    profiled = [e for e in evaluations if (e.get("outcome") or {}).get("profile")][:KERNELS]
    assert len(profiled) == KERNELS
    task, device = find_task("silu_and_mul"), pick_device("virtual", None)
    oracle = Oracle(task)
    try:
        for evaluation in profiled:
            source = next(
                s for sha, s in sources.items() if sha.startswith(evaluation["candidate"])
            )
            built = build(task, source, device)
            assert isinstance(built, Build)
            profile = evaluation["outcome"]["profile"]
            oracle_cases = oracle.oracle_cases([Case.model_validate(profile["case"])], Stop())
            (run,) = Runner(task, device, engine="numpy").run(built, oracle_cases, "time")
            assert isinstance(run, CaseRun)
            (launch,) = run.report.launches
            values = {metric["name"]: metric["value"] for metric in profile["metrics"]}
            executed = sum(launch.counters.machine_instructions.values())
            assert executed * launch.scale == values[m.INSTRUCTIONS]
    finally:
        oracle.close()
