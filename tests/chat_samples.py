"""A small task with a scripted run, and a judge whose findings are fixed, for tests of the chat."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from astra_chat.agents.run_state import state_of
from astra_chat.agents.turn_order import Decision
from astra_chat.agents.turns import (
    Analysis,
    Extent,
    Kernel,
    Plan,
    RunRequest,
    TestCase,
    TestSuite,
    Turn,
)
from astra_chat.session.final_message import ended
from astra_chat.tools.evaluation import BuildReport, Built, CheckRecord, Evaluation, Step
from astra_chat.tools.mutation.scores import CaseScore, CaseScores
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import (
    BuildFailed,
    Case,
    Correct,
    Device,
    Metric,
    Outcome,
    Profile,
    Resources,
    Timed,
    Wrong,
    candidate_id,
    sha256_of,
)
from astra_chat.transcript.events import Blob, Chosen, Ended, Event, Header, TaskRecord
from astra_chat.transcript.options import RunOptions
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import finished, texts
from astra_chat.transcript.writer import Writer, blobs, events_of
from tests.time_samples import estimated_time

DEVICE = Device(
    kind="virtual", name="virtual GPU, estimates for NVIDIA H200", arch="sm_90", spec="h200"
)
CASE = Case(dims={"rows": 4, "d": 64}, dtype="float32")

TASK_TOML = """
schema = 1
name = "doubled"
summary = "out = 2 * input"
entry = "doubled"
dtypes = ["float32"]
flops = "rows*d"
flags = ["-O3", "-std=c++17"]
args = [
    { name = "out", dtype = "T", shape = ["rows", "d"], access = "write" },
    { name = "input", dtype = "T", shape = ["rows", "d"], access = "read" },
]
check = [
    { rows = 3, d = 20, dtype = "float32" },
    { rows = 1, d = 4, dtype = "float32", values = "special" },
]
bench = [{ rows = 64, d = 1024, dtype = "float32", weight = 1 }]
demo = [{ rows = 64, d = 1024, dtype = "float32", weight = 1 }]

[dims.rows]
min = 1
max = 256

[dims.d]
min = 4
max = 1024
multiple_of_bytes = 16

[tolerance]
float32 = { rtol = 1e-6, atol = 1e-6 }

[provenance]
baseline = "written for this test"
"""

WIDE_TOML = TASK_TOML.replace("max = 256", "max = 4096").replace("max = 1024", "max = 4096")
"""The task with cases that are too large for a check."""

REFERENCE = '''
"""The truth, in float64."""

def make_inputs(case, generator):
    return {"input": case.draw(generator, (case.dims["rows"], case.dims["d"]))}


def reference(inputs):
    return {"out": inputs["input"].double() * 2}
'''

HEAD = """#include <cuda_runtime.h>
#include <stdint.h>
"""

SCALAR = (
    HEAD
    + """
__global__ void kernel(float* out, const float* in, int64_t total) {
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < total;
       i += (int64_t)gridDim.x * blockDim.x)
    out[i] = 2.0f * in[i];
}

extern "C" cudaError_t doubled(void* out, const void* input, int64_t rows, int64_t d, int dtype,
                               cudaStream_t stream) {
  kernel<<<4, 64, 0, stream>>>((float*)out, (const float*)input, rows * d);
  return cudaGetLastError();
}
"""
)

VECTOR = (
    HEAD
    + """
__global__ void kernel(float4* out, const float4* in, int64_t vectors) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= vectors) return;
  float4 v = in[i];
  out[i] = make_float4(2.0f * v.x, 2.0f * v.y, 2.0f * v.z, 2.0f * v.w);
}

extern "C" cudaError_t doubled(void* out, const void* input, int64_t rows, int64_t d, int dtype,
                               cudaStream_t stream) {
  int64_t vectors = rows * d / 4;
  kernel<<<(unsigned)((vectors + 127) / 128), 128, 0, stream>>>((float4*)out, (const float4*)input,
                                                                vectors);
  return cudaGetLastError();
}
"""
)

BROKEN = SCALAR.replace("2.0f * in[i];", "2.0f * inn[i];")
"""Does not compile."""

WRONG = SCALAR.replace("i < total;", "i + 1 < total;")
"""Leaves the last element unwritten."""

SCRIPT = """
[[tester]]
words = "A row of one vector is the least that is legal."
cases = [{ rows = 7, d = 12, dtype = "float32", why = "no whole warp" }]

[[tester]]
words = "Many short rows."
cases = [{ rows = 129, d = 4, dtype = "float32", values = "large", why = "overflow" }]

[[round]]
[round.plan]
title = "Leave the scalar loop"
change = "Rewrite the loop."
why = "It is the only loop."
anchor = "out[i] = 2.0f * in[i];"
metric = "global_load_requests"
predicted_ratio = 1.1
[round.coder]
file = "broken.cu"
words = "The loop, rewritten."
expects = "build_failed"
[[round.fixer]]
file = "wrong.cu"
words = "A name was misspelt."
expects = "wrong"
[[round.fixer]]
file = "scalar.cu"
words = "The bound was off."
expects = "tie"
[round.profiler]
words = "As many requests as before; further tests might be needed first."
evidence = ["global_load_requests"]
bottleneck = "latency"
next = "unsure"

[[round]]
[round.plan]
title = "Vectors of four"
change = "One request for four elements."
why = "Requests are what it waits for."
anchor = "out[i] = 2.0f * in[i];"
metric = "global_load_requests"
predicted_ratio = 2.0
[round.coder]
file = "vector.cu"
words = "Rows hold whole vectors, so no tail is needed."
expects = "accepted"
[round.profiler]
words = "Fewer requests for the same bytes."
evidence = ["global_load_requests"]
bottleneck = "dram"
next = "plan"

[[selector]]
choose = "tester"
"""

KERNELS = {
    "broken.cu": BROKEN,
    "wrong.cu": WRONG,
    "scalar.cu": SCALAR + "// again\n",
    "vector.cu": VECTOR,
}


@pytest.fixture
def task_folder(tmp_path: Path) -> Path:
    """A task folder with a scripted run of two rounds: failed build, wrong, tie; then faster."""
    folder = tmp_path / "doubled"
    (folder / "script").mkdir(parents=True)
    (folder / "task.toml").write_text(TASK_TOML)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "baseline.cu").write_text(SCALAR)
    (folder / "script" / "script.toml").write_text(SCRIPT)
    for name, text in KERNELS.items():
        (folder / "script" / name).write_text(text)
    return folder


@pytest.fixture
def task(task_folder: Path) -> Task:
    return load_task(task_folder)


def timed(ratio: float, verdict: str = "accepted", requests: float = 100.0) -> Timed:
    """A timing of one case with this ratio over the baseline."""
    profile = Profile(
        basis="estimated",
        case=CASE,
        metrics=(
            Metric(
                name="global_load_requests",
                value=requests,
                unit="",
                words="warp-wide load instructions",
            ),
        ),
        bottleneck="latency",
        why="few bytes are in flight",
        limit_us=1.0,
        percent_of_limit=50.0,
    )
    time = estimated_time(
        CASE,
        ratio,
        baseline_us=2.0,
        median_us=2.0 / ratio,
        ratio_low=ratio * 0.9,
        ratio_high=ratio * 1.1,
        percent_of_limit=50.0 * ratio,
        limiter="latency",
    )
    return Timed(
        correct=Correct(cases=3, worst=0.1),
        cases=(time,),
        ratio=ratio,
        verdict=verdict,
        why="outside the noise",
        profile=profile,
    )


def check_record(**changes: Any) -> CheckRecord:
    """A check of one call that found nothing."""
    plain = {"visible": (), "hidden": (), "calls": 1, "how": {}, "elements": 1, "guard_bytes": 0}
    return CheckRecord.model_validate({**plain, "read_bytes": 0, "repeats": 0, **changes})


def evaluation(source: str, outcome: Outcome) -> Evaluation:
    return Evaluation(
        candidate=candidate_id(source),
        device=DEVICE,
        outcome=outcome,
        resources=(
            Resources(
                kernel="kernel", registers=16, static_shared_bytes=0, spill_bytes=0, stack_bytes=0
            ),
        ),
        steps=(Step(name="check", seconds=0.1), Step(name="time", seconds=0.2)),
    )


WRONG_OUTCOME = Wrong(
    case=CASE,
    argument="out",
    reason="unwritten",
    index=(3, 63),
    expected=1.0,
    got=float("nan"),
    bad=1,
    total=256,
)


class FixedJudge:
    """The judge's interface with findings by source: a vehicle for tests of the turn order."""

    def __init__(self, outcomes: dict[str, Outcome] | None = None) -> None:
        self.outcomes: dict[str, Outcome] = {
            SCALAR: timed(1.0, "tie"),
            KERNELS["wrong.cu"]: WRONG_OUTCOME,
            KERNELS["scalar.cu"]: timed(1.0, "tie"),
            KERNELS["vector.cu"]: timed(1.9, "accepted", 25.0),
        } | (outcomes or {})
        self.evaluated: list[tuple[str, tuple[Case, ...]]] = []
        self.cancelled = threading.Event()
        self.before: Callable[[], None] = lambda: None
        """Called in the judge's thread before each evaluation."""

    def build(self, source: str, also: Sequence[str] = ()) -> BuildReport:
        failed = "inn[i]" in source
        result = BuildFailed(log='line 5: error: identifier "inn" is undefined') if failed else None
        return BuildReport(
            candidate=candidate_id(source),
            result=result or Built(resources=()),
            steps=(Step(name="guard", seconds=0.01), Step(name="build", seconds=1.5)),
        )

    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation:
        self.before()
        self.evaluated.append((source, tuple(extra_cases)))
        found = evaluation(source, self.outcomes[source])
        return found.model_copy(update={"confirms": fresh_seeds})

    def score(self, cases: Sequence[Case], mutants: int, also: str = "") -> CaseScores:
        return scored(*cases)

    def tune(self, source: str, points: int, measured: int) -> Tuning:
        return Tuning(
            candidate=candidate_id(source), combinations=1, points=(), start={}, best={}, seconds=0
        )

    def cancel(self) -> None:
        self.cancelled.set()


@pytest.fixture
def fixed_judge() -> FixedJudge:
    return FixedJudge()


def scored(*cases: Case, idle: Sequence[Case] = ()) -> CaseScores:
    """A score in which all of these cases, but the idle ones, kill one new mutant of three."""
    scores = [CaseScore(case=c, kills=() if c in idle else ("last in line 9",)) for c in cases]
    names = ("bound in line 9", "last in line 9", "number in line 3")
    return CaseScores(asked=12, mutants=names, own=names[:1], cases=tuple(scores))


def run_request() -> RunRequest:
    return RunRequest(
        task="doubled", summary="out = 2 * input", device=DEVICE.name, tier="sglang", rounds=5
    )


def suite(*shapes: tuple[int, int]) -> TestSuite:
    """Cases of the tester's by rows and d."""
    cases = tuple(
        TestCase(
            dims=(Extent(name="rows", value=rows), Extent(name="d", value=d)),
            dtype="float32",
            values="normal",
            why="odd",
        )
        for rows, d in shapes
    )
    return TestSuite(words="Odd extents.", cases=cases)


def plan(title: str = "Vectors", predicted_ratio: float = 1.5) -> Plan:
    return Plan(
        title=title,
        change="One request for four elements.",
        why="Requests are what it waits for.",
        anchor="out[i] = 2.0f * in[i];",
        metric="global_load_requests",
        predicted_ratio=predicted_ratio,
    )


def analysis(following: Literal["plan", "unsure", "stop"] = "plan") -> Analysis:
    return Analysis(
        words="Fewer requests.",
        bottleneck="latency",
        evidence=("global_load_requests",),
        next=following,
    )


def build(source: str) -> BuildReport:
    return FixedJudge().build(source)


def on_case(timed: Timed, case: Case) -> Timed:
    """The timing as one of this case: of a task with other dims."""
    profile = timed.profile.model_copy(update={"case": case})
    cases = tuple(one.model_copy(update={"case": case}) for one in timed.cases)
    return timed.model_copy(update={"cases": cases, "profile": profile})


def baseline_turns(outcome: Outcome | None = None) -> list[Turn]:
    """User, tester and the baseline's evaluation: how every chat begins."""
    return [
        Turn("user", run_request()),
        Turn("tester", suite((7, 12))),
        Turn("executor", evaluation(SCALAR, outcome or timed(1.0, "tie"))),
    ]


def coded(source: str, words: str = "") -> list[Turn]:
    """Returns the turns of a kernel that builds."""
    return [Turn("coder", Kernel(words=words, source=source)), Turn("executor", build(source))]


def asking_turns() -> list[Turn]:
    """How a chat begins whose user wants to be asked: user, tester and the baseline's
    evaluation."""
    asked = run_request().model_copy(update={"approval": True})
    return [Turn("user", asked), *baseline_turns()[1:]]


def run_options(**changes: Any) -> RunOptions:
    """Options of a run whose cases are not scored by seeded bugs."""
    return RunOptions.model_validate({"mutants": 0, **changes})


def header() -> Header:
    """The head of a transcript whose task has one file, FILE."""
    return Header(
        started="2026-01-01T00:00:00+00:00",
        versions={"astra": "0.1.0", "python": "3.11.7"},
        device=DEVICE,
        options=run_options(confirmations=0),
        git=None,
        task=TaskRecord(name="doubled", id="0" * 64, files={"baseline.cu": sha256_of(SCALAR)}),
    )


def header_of(turns: Sequence[Turn]) -> Header:
    """The head of a transcript of these turns: it knows whether a human is asked."""
    asks = any(isinstance(t.payload, RunRequest) and t.payload.approval for t in turns)
    options = header().options.model_copy(update={"approval": "detached" if asks else ""})
    return header().model_copy(update={"options": options})


def write_transcript(path: Path, turns: Sequence[Turn] | None = None) -> Path:
    """A finished run's transcript: these turns, or the baseline's and one faster candidate."""
    turns = turns or [
        *baseline_turns(),
        Turn("planner", plan()),
        Turn("coder", Kernel(words="Four at a time.", source=VECTOR)),
        Turn("executor", build(VECTOR)),
        Turn("executor", evaluation(VECTOR, timed(1.9, requests=25.0))),
        Turn("profiler", analysis("stop")),
    ]
    stored: set[str] = set()
    writer = Writer(path, "run-1")
    writer.append(header_of(turns), *blobs([SCALAR], stored))
    for number, said in enumerate(turns):
        if number:
            decision = Decision(speaker=said.speaker, by="rule", legal=(said.speaker,))
            writer.append(Chosen(decision=decision))
        writer.append(*events_of(said, stored))
    writer.append(ended(state_of(turns), "profiler"))
    writer.close()
    return path


def story(path: Path) -> list[str]:
    """All that a run came to, but for ids, clock fields, and what the judge draws again in every
    evaluation, hidden cases and the seeds of a confirmation: the records of its finished turns, the
    texts, the end."""
    found = read(path)
    told = [record.event for record in finished(found.records)]
    told += [record.event for record in found.records[-1:] if isinstance(record.event, Ended)]
    kept = [event for event in told if not isinstance(event, Header | Blob)]
    return [*sorted(texts(found.records)), *map(_timeless, kept)]


def _timeless(event: Event) -> str:
    document = event.model_dump(mode="json")
    for part in (document, *(document.get(key) or {} for key in ("report", "evaluation"))):
        part.pop("steps", None)
        part.pop("check", None)
        part.pop("seed", None)
    evidence = (document.get("evaluation") or {}).get("evidence") or {}
    for recorded in evidence.get("plans", ()):  # their hashes follow from the case's seed
        for name in ("case", "plan_sha256", "baseline_plan_sha256"):
            recorded.pop(name)
    outcome = (document.get("evaluation") or {}).get("outcome") or {}
    if outcome.get("kind") == "timed":
        outcome["correct"] = "right on drawn numbers"
        for case in [outcome["profile"]["case"], *(timed["case"] for timed in outcome["cases"])]:
            case.pop("seed")
    elif outcome.get("kind") in ("wrong", "correct"):
        document["evaluation"]["outcome"] = {"kind": outcome["kind"]}
    return json.dumps(document)
