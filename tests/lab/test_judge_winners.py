"""Winners of live runs, judged as a confirmation judges: here on the virtual GPU."""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path

import pytest

from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.types import Device, Timed
from lab.judge_winners import judge_all, main, to_judge
from lab.live_runs import load
from lab.results import read_evaluation
from lab.winners import fastest
from tests.recorded_files import LIVE

H200 = Device(kind="cuda", name="NVIDIA H200", arch="sm_90", spec="h200")

RMSNORM = "rmsnorm-71ab7f3a9bf6-h200.json"


def said_of(evaluation: Evaluation, path: Path, confirms: bool) -> Path:
    """A GPU's document about a winner, as a confirmation or not."""
    dumped = evaluation.model_copy(update={"confirms": confirms}).model_dump_json()
    path.write_text(f'{{"schema": "astra-chat/evaluation/1", "evaluation": {dumped}}}')
    return path


def test_who_is_confirmed_there_is_left_out_and_who_was_never_there_comes_first(
    tmp_path: Path,
) -> None:
    further = LIVE / "further"
    confirmed, estimated, timed = (
        further / f"{name}.jsonl"
        for name in (
            "rmsnorm-sglang-team-1",
            "moe_sum_reduce-sglang-team-2",
            "topk_softmax-sglang-team-1",
        )
    )
    topk = read_evaluation(further / "topk_softmax-d35cef595bc2-h200.json")
    said = [further / RMSNORM, said_of(topk, tmp_path / "timed.json", confirms=False)]
    runs = load([confirmed, timed, estimated, *said])
    (first,), (second,) = to_judge(runs, H200)
    assert (first.transcript, first.judged_there) == (estimated, False)
    assert (second.transcript, second.judged_there) == (timed, True)
    h100 = H200.model_copy(update={"name": "NVIDIA H100 80GB HBM3"})
    assert len(to_judge(runs, h100)) == 3


def test_winners_of_one_task_and_start_stand_together() -> None:
    found = to_judge(load([LIVE / "paper-table/merge*.jsonl"]), H200)
    assert sorted((some[0].tier, len(some)) for some in found) == [("paper", 4), ("sglang", 2)]
    assert all(
        {(one.task, one.tier) for one in some} == {("merge_state_v2", some[0].tier)}
        for some in found
    )


def test_a_confirmation_counts_before_a_time(tmp_path: Path) -> None:
    """A confirmation counts whatever the order of their files."""
    run, said = "rmsnorm-sglang-team-1.jsonl", LIVE / "further" / RMSNORM
    found = read_evaluation(said)
    assert found.confirms
    later = said_of(found, tmp_path / "z.json", confirms=False)
    for files in ([said, later], [later, said]):
        (one,) = load([*files, LIVE / "further" / run])
        assert one.measured["NVIDIA H200"].confirms


def test_a_confirmation_counts_before_what_the_run_itself_measured(tmp_path: Path) -> None:
    """The run was judged on a GPU, and its winner was not confirmed there."""
    transcript = LIVE / "detached/merge_state_v2-sglang-team-2.jsonl"
    (run,) = load([transcript])
    own = run.measured["NVIDIA H200"]
    ((winner,),) = to_judge([run], H200)
    assert not own.confirms and winner.judged_there
    confirmed = said_of(own, tmp_path / "confirmed.json", confirms=True)
    for files in ([confirmed, transcript], [transcript, confirmed]):
        (run,) = load(files)
        assert run.measured["NVIDIA H200"].confirms and not to_judge([run], H200)


@pytest.mark.second_tier
def test_a_winner_is_judged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    transcript = LIVE / "paper-table/silu_and_mul-sglang-single-1.jsonl"
    device = virtual_device("h200")
    arguments = [str(transcript), "-o", str(tmp_path), "--device", "virtual", "--trust"]
    monkeypatch.setattr(sys, "argv", ["judge_winners", *arguments])
    with pytest.raises(SystemExit, match="False"):
        main()
    (run,) = load([transcript])
    ((winner,),) = to_judge([run], device)
    path, speed = winner.result(device, tmp_path), fastest(run.summary)
    found = read_evaluation(path)
    assert speed and found.candidate == speed.candidate and found.confirms
    assert isinstance(found.outcome, Timed) and path.name in capsys.readouterr().out
    before = path.stat().st_mtime_ns
    assert judge_all([run], device, tmp_path, None, True) == 0
    assert path.stat().st_mtime_ns == before


def test_what_another_process_is_at_is_left_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run,) = load([LIVE / "silu_and_mul-single.jsonl"])
    with (tmp_path / "silu_and_mul-sglang-h200.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert judge_all([run], virtual_device("h200"), tmp_path, None, True) == 0
    assert capsys.readouterr().out == "" and not list(tmp_path.glob("*.gz"))
