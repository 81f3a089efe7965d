"""What `make demo` shows: the recorded replies of a live run, judged now."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from astra_chat.agents.turns import Kernel, Plan, Turns
from astra_chat.session.request import SessionOptions, request_for
from astra_chat.session.session import run_request
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.recordings.reading import names_in, read_recorded
from astra_chat.tools.task.folder import BUILTIN, TRANSCRIPT, task_names
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import Case, candidate_id
from astra_chat.transcript.events import Contradiction, Deviation, RejectedReply
from astra_chat.transcript.options import RunOptions
from astra_chat.transcript.reader import Transcript, read
from astra_chat.transcript.turns import turns_of
from tests.recorded_files import ARCHIVE
from tests.recorded_files import LIVE as RUNS

ROOT = Path(__file__).parents[2]
P = TypeVar("P")
PAPER_TABLE, FURTHER = "paper-table", "further"
LIVE = {
    task: RUNS / path
    for task, path in {
        "silu_and_mul": "silu_and_mul.jsonl",
        "merge_state_v2": f"{PAPER_TABLE}/merge_state_v2-sglang-team-1.jsonl",
        "fused_add_rmsnorm": f"{PAPER_TABLE}/fused_add_rmsnorm-sglang-single-1.jsonl",
        "rmsnorm": f"{FURTHER}/rmsnorm-sglang-team-1.jsonl",
        "gelu_tanh_and_mul": f"{FURTHER}/gelu_tanh_and_mul-sglang-single-1.jsonl",
        "moe_sum_reduce": f"{FURTHER}/moe_sum_reduce-sglang-team-2.jsonl",
        "rotary_embedding": f"{FURTHER}/rotary_embedding-sglang-single-1.jsonl",
        "per_token_quant_fp8": f"{FURTHER}/per_token_quant_fp8-sglang-single-1.jsonl",
        "per_token_group_quant_fp8": f"{FURTHER}/per_token_group_quant_fp8-sglang-team-2.jsonl",
        "silu_and_mul_group_quant_fp8": f"{FURTHER}/"
        "silu_and_mul_group_quant_fp8-sglang-team-1.jsonl",
        "fused_add_rmsnorm_quant_fp8": f"{FURTHER}/fused_add_rmsnorm_quant_fp8-sglang-team-1.jsonl",
        "topk_softmax": f"{FURTHER}/topk_softmax-sglang-single-1.jsonl",
        "moe_align_block_size": f"{FURTHER}/moe_align_block_size-sglang-team-2.jsonl",
        "qk_rmsnorm_rope": f"{FURTHER}/qk_rmsnorm_rope-sglang-team-1.jsonl",
        "rope_and_kv_write": f"{FURTHER}/rope_and_kv_write-sglang-team-1.jsonl",
    }.items()
}
"""The recorded run in a task's folder: on an H200 the fastest over today's baseline that the
virtual GPU can run. silu_and_mul's is the first of all, which the README shows."""
SCRIPTED = (
    "fused_add_rmsnorm_batch_invariant",
    "gemv_bf16",
    "gqa_paged_decode",
    "moe_experts_small",
    "qk_norm_rope_kv_append",
    "router_gate",
)
"""Tasks without a live run yet: their folders hold their scripted run, and the archive does not."""
UNRECORDED = ("linear_cross_entropy",)
"""Tasks whose scripted run is not recorded yet: by default their script is played."""
JUDGED_AGAIN = ("merge_state_v2", "rotary_embedding")
"""Beside silu_and_mul, which `make demo` judges."""
DEMO = "ASTRA_DEMO_SAID"


@pytest.fixture(params=[*LIVE, *SCRIPTED])
def task(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class RecordedResults:
    """The judge's interface with the results of the live run."""

    def __init__(self, turns: Turns) -> None:
        self._said = [turn.payload for turn in turns]

    def build(self, source: str, also: Sequence[str] = ()) -> BuildReport:
        name = candidate_id(source)
        return self._first(BuildReport, lambda said: said.candidate == name)

    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation:
        asked = candidate_id(source), fresh_seeds
        return self._first(Evaluation, lambda said: (said.candidate, said.confirms) == asked)

    def score(self, cases: Sequence[Case], mutants: int, also: str = "") -> CaseScores:
        given = list(cases)
        return self._first(CaseScores, lambda said: [one.case for one in said.cases] == given)

    def tune(self, source: str, points: int, measured: int) -> Tuning:
        name = candidate_id(source)
        return self._first(Tuning, lambda said: said.candidate == name)

    def _first(self, kind: type[P], asked: Callable[[P], bool]) -> P:
        found = [one for one in self._said if isinstance(one, kind) and asked(one)]
        assert found, f"the recorded run has no such {kind.__name__}"
        return found[0]

    def cancel(self) -> None:
        """Nothing is running."""


def parted(transcript: Transcript) -> list[object]:
    """What shows that a reply no longer fits the chat, or a result the record."""
    kinds = (Contradiction, Deviation, RejectedReply)
    return [r.event for r in transcript.records if isinstance(r.event, kinds)]


def course(transcript: Transcript) -> list[tuple[str, str]]:
    """Who spoke, and of kernels which."""
    turns = [(turn.speaker, turn.payload) for turn in turns_of(transcript.records)]
    return [(who, said.candidate if isinstance(said, Kernel) else "") for who, said in turns]


def test_every_task_has_the_committed_run(task: str) -> None:
    packed = BUILTIN / task / TRANSCRIPT
    assert sorted([*LIVE, *SCRIPTED, *UNRECORDED]) == sorted(task_names())
    if task in SCRIPTED:
        assert read(packed).options.models == "scripted"
        return
    live = LIVE[task]
    name = live.relative_to(ARCHIVE).as_posix()
    assert names_in(ARCHIVE)[name].default_of == task
    assert read_recorded(packed) == read_recorded(live)


def test_todays_chat_takes_every_recorded_reply(task: str, tmp_path: Path) -> None:
    """With the recorded results and the recorded options; the test below has the judge."""
    live = read(BUILTIN / task / TRANSCRIPT)
    session = SessionOptions(task=task, device="virtual", out=tmp_path / "out")
    judge = RecordedResults(turns_of(live.records))
    again = read(run_request(request_for(RunOptions(), session), judge=judge).transcript)
    assert parted(again) == []
    assert course(again) == course(live)
    assert again.ended is not None and live.ended is not None
    # Where the profiler asked to stop in the last round, a run says that its rounds are done.
    plans = sum(isinstance(turn.payload, Plan) for turn in turns_of(live.records))
    done = plans == live.options.rounds
    assert again.ended.reason == ("rounds" if done else live.ended.reason)


@pytest.mark.parametrize(
    ("name", "given", "models"),
    [
        ("silu_and_mul", {}, "transcript"),
        ("silu_and_mul", {"models": "scripted"}, "scripted"),
        ("silu_and_mul", {"strategy": "single"}, "scripted"),
        (UNRECORDED[0], {}, "scripted"),
        ("merge_state_v2", {"strategy": "single"}, "scripted"),
        ("fused_add_rmsnorm", {}, "transcript"),
        ("fused_add_rmsnorm", {"strategy": "best"}, "scripted"),
    ],
)
def test_a_script_is_played_where_no_recorded_run_fits(
    name: str, given: dict[str, str], models: str, tmp_path: Path
) -> None:
    session = SessionOptions(task=name, device="virtual", out=tmp_path / "out")
    assert request_for(RunOptions.given(**given), session).models.name == models


def test_a_script_is_played_where_no_run_is_recorded(task_folder: Path, tmp_path: Path) -> None:
    session = SessionOptions(task=str(task_folder), device="virtual", out=tmp_path / "out")
    assert not (task_folder / TRANSCRIPT).exists()
    assert request_for(RunOptions(), session).models.name == "scripted"


def require_as_recorded(name: str, stdout: str, out: Path, rounds: int | None = None) -> None:
    """The run's first lines name the live run; who spoke, all kernels and the winner are its. With
    `rounds`, of which it had more, they say so."""
    live = read(LIVE[name])
    head = " ".join(stdout.split("\n\n")[0].split())
    day = live.header.started.partition("T")[0]
    assert f"recorded replies: live run {live.records[0].run} of {day} (Claude" in head
    scripted = "--models scripted plays the task's script" in head
    assert scripted == (BUILTIN / name / "script").is_dir()
    fewer = f"the first {rounds} of its {live.options.rounds} rounds" in head
    assert fewer == (rounds is not None)
    require_course(live, read(out), rounds)


def require_course(live: Transcript, again: Transcript, rounds: int | None) -> None:
    """Who spoke, all kernels and the winner are those of the live run; with `rounds` until then,
    and the best so far is confirmed."""
    assert parted(again) == []
    assert again.ended is not None and live.ended is not None
    if rounds is None:
        assert course(again) == course(live)
        assert again.ended.best == live.ended.best
        return
    *begun, confirmation = course(again)
    assert begun == course(live)[: len(begun)] and confirmation == ("executor", "")
    candidates = [kernel for _, kernel in begun if kernel]
    assert len(candidates) == rounds < live.options.rounds
    assert again.ended.best in candidates


@pytest.mark.second_tier
@pytest.mark.skipif(DEMO not in os.environ, reason=f"${DEMO}: .ci/run keeps there what it printed")
def test_make_demo_finds_what_was_recorded() -> None:
    stdout = Path(os.environ[DEMO]).read_text()
    (transcript,) = re.findall(r"^transcript: (.+)$", stdout, re.MULTILINE)
    require_as_recorded("silu_and_mul", stdout, ROOT / transcript, rounds=2)


@pytest.mark.in_full
@pytest.mark.parametrize("name", JUDGED_AGAIN)
def test_todays_judge_finds_what_was_recorded(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "-m", "astra_chat", "run", name, "--device", "virtual", "-o", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    require_as_recorded(name, done.stdout, out)
