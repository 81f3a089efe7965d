"""Whole runs recorded and played back: no request, no judge, the identical transcript."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from astra_chat.models.open_models import open_models
from astra_chat.models.run_models import RunModels
from astra_chat.models.script import load_script
from astra_chat.session.request import Request
from astra_chat.session.results import RunResult
from astra_chat.session.resume import resumed
from astra_chat.session.session import run_request
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.types import Case, Timed, candidate_id
from astra_chat.transcript.events import Contradiction, Deviation, Judged, RejectedReply
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import finished
from astra_vgpu.ground.errors import BadInput, MissingDependency
from tests.astra_chat.fake_openai import Asked, Reply, by_script, failed, said, serving
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import DEVICE, KERNELS, SCALAR, VECTOR, FixedJudge, run_options, timed

CLOCKS = ("t", "run", "started")
"""Fields of a line that may differ between two runs of the same."""


class NoJudge(FixedJudge):
    """There is none here."""

    def build(self, source: str, also: Sequence[str] = ()) -> BuildReport:
        raise AssertionError("the judge was asked")

    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation:
        raise AssertionError("the judge was asked")


def run(task: Task, models: RunModels, out: Path, judge: FixedJudge) -> RunResult:
    request = chat_request(
        task, out, device=models.played.device if models.played else DEVICE, models=models
    )
    return run_request(request, judge=judge)


def tied() -> FixedJudge:
    """Nothing is accepted, so no module is built at the end, which takes a second."""
    return FixedJudge({KERNELS["vector.cu"]: timed(1.0, "tie")})


def lines(path: Path) -> list[Any]:
    """Every line of a transcript without ids and clocks."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for line in found:
        for part in (line, line["event"]):
            for name in CLOCKS:
                part.pop(name, None)
    return found


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return tmp_path / "tape.jsonl"


def stumbling(task: Task) -> Callable[[Asked], Reply]:
    """The script's answers, after a planner's first three that are none and a busy server."""
    first = [failed(500), said("Sure!"), said(None, refusal="I won't.")]
    script = by_script(load_script(task))
    return lambda asked: first.pop(0) if asked.role == "planner" and first else script(asked)


def test_a_live_run_plays_back_offline(task: Task, tmp_path: Path, recording: Path) -> None:
    with serving(stumbling(task)) as server:
        models = open_models(f"record:{recording}:openai:m,backoff_s=0.01", task, server.url)
        live = run(task, models, tmp_path / "live", FixedJudge())
        asked = len(server.asked)
        played = open_models(f"replay:{recording}", task)
        again = run(task, played, tmp_path / "again", NoJudge())
        assert len(server.asked) == asked == 15, "a replay asks nobody"
    assert lines(again.transcript) == lines(live.transcript)
    reasons = [r for r in read(live.transcript).records if isinstance(r.event, RejectedReply)]
    assert len(reasons) == 2
    assert again.summary.best is not None and (tmp_path / "again" / "best.cu").is_file()


def test_a_scripted_run_too_with_what_its_script_foretells(
    task: Task, tmp_path: Path, recording: Path
) -> None:
    live = run(task, open_models(f"record:{recording}:scripted", task), tmp_path / "live", tied())
    again = run(task, open_models(f"replay:{recording}", task), tmp_path / "again", NoJudge())
    assert lines(again.transcript) == lines(live.transcript)
    assert [r for r in read(again.transcript).records if isinstance(r.event, Deviation)]


def test_doubts_confirmations_and_a_humans_decisions_play_back(
    task: Task, tmp_path: Path, recording: Path
) -> None:
    """A model that stands by a wrong anchor; a winner that is confirmed, shown and refused."""
    script = task.folder / "script" / "script.toml"
    script.write_text(script.read_text().replace('anchor = "out[i] = 2', 'anchor = "out[i] = 3', 1))
    task = load_task(task.folder)
    words = [*['answer = "approve"'] * 3, 'answer = "reject"\nreason = "no"']
    (tmp_path / "d.toml").write_text("".join(f"[[decision]]\n{one}\n" for one in words))
    found = []
    with serving(by_script(load_script(task))) as server:
        for spec, url, judge in (
            (f"record:{recording}:openai:m", server.url, FixedJudge()),
            (f"replay:{recording}", None, NoJudge()),
        ):
            asked = len(server.asked)
            request = chat_request(
                task,
                tmp_path / str(asked),
                models=open_models(spec, task, url),
                approver=str(tmp_path / "d.toml"),
            )
            found.append(run_request(request, judge=judge))
    assert len(server.asked) == asked, "a replay asks nobody"
    first, again = (read(result.transcript) for result in found)
    assert lines(first.path) == lines(again.path)
    assert [r.event.stands for r in first.records if isinstance(r.event, Contradiction)] == [
        False,
        True,
    ]
    assert any(isinstance(r.event, Judged) and r.event.evaluation.confirms for r in first.records)
    assert found[0].summary.best is None, "refused"


def test_the_figures_are_those_of_the_tape(task: Task, tmp_path: Path, recording: Path) -> None:
    judge = FixedJudge({VECTOR: timed(1.23), SCALAR: timed(1.0, "tie")})
    run(task, open_models(f"record:{recording}:scripted", task), tmp_path / "live", judge)
    again = run(task, open_models(f"replay:{recording}", task), tmp_path / "again", NoJudge())
    assert again.summary.best is not None and again.summary.best.ratio == 1.23


def test_a_run_that_failed_fails_again(task: Task, tmp_path: Path, recording: Path) -> None:
    def answer(asked: Asked) -> Reply:
        no_quota = failed(429, "pay first", "insufficient_quota")
        return no_quota if asked.role == "coder" else script(asked)

    script = by_script(load_script(task))
    with serving(answer) as server:
        models = open_models(f"record:{recording}:openai:m", task, server.url)
        with pytest.raises(MissingDependency, match="pay first"):
            run(task, models, tmp_path / "live", tied())
    with pytest.raises(MissingDependency, match="pay first"):
        run(task, open_models(f"replay:{recording}", task), tmp_path / "again", NoJudge())
    live, again = (tmp_path / name / "transcript.jsonl" for name in ("live", "again"))
    assert lines(again) == lines(live)


@pytest.mark.second_tier
def test_auto_goes_on_where_a_tape_ends(task: Task, tmp_path: Path, recording: Path) -> None:
    """What was paid for before a crash is not paid for again."""
    with serving(by_script(load_script(task))) as server:
        spec = f"auto:{recording}:openai:m"
        whole = run(task, open_models(spec, task, server.url), tmp_path / "whole", tied())
        recorded = recording.read_bytes()
        for share in (0.2, 0.5, 0.9):
            recording.write_bytes(recorded[: int(len(recorded) * share)])
            kept = recording.read_text(errors="replace").count('"kind":"Answer"')
            before = len(server.asked)
            out = tmp_path / f"{share}"
            result = run(task, open_models(spec, task, server.url), out, tied())
            assert lines(result.transcript) == lines(whole.transcript)
            total = recorded.decode().count('"kind":"Answer"')
            assert len(server.asked) - before <= total - kept + 1
            again = run(task, open_models(f"replay:{recording}", task), out / "again", NoJudge())
            assert lines(again.transcript) == lines(whole.transcript)


class Drifting(FixedJudge):
    """Finds another ratio each time, as clocks do."""

    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation:
        found = super().evaluate(source, extra_cases, fresh_seeds=fresh_seeds)
        ratio = 1.0 + len(self.evaluated) / 100
        outcome = timed(ratio, "tie")
        return found.model_copy(update={"outcome": outcome}) if source == SCALAR else found


@pytest.mark.parametrize("evaluations", [1, 2, 3])
def test_a_replay_that_stops_and_goes_on_is_the_same_run(
    task: Task, tmp_path: Path, recording: Path, evaluations: int
) -> None:
    """Also where a source is judged twice: the baseline's comes again as a candidate."""
    (task.folder / "script" / "scalar.cu").write_text(SCALAR)
    task = load_task(task.folder)
    judge = Drifting({VECTOR: timed(1.0, "tie")})
    limited = run_options(budget=f"evaluations={evaluations}")
    live, models = tmp_path / "live", open_models(f"record:{recording}:scripted", task)
    run_request(Request(task, DEVICE, models, folder=live, options=limited), judge=judge)
    models = open_models(f"auto:{recording}:scripted", task)  # what it is told names its limit
    request = Request(task, DEVICE, models, folder=live, options=run_options())
    whole = run_request(request, judge=judge, past=resumed(live))
    ratios = [
        e.outcome.ratio
        for r in read(whole.transcript).records
        if isinstance(r.event, Judged)
        and (e := r.event.evaluation)
        and isinstance(e.outcome, Timed)
        and e.candidate == candidate_id(SCALAR)
    ]
    assert len(set(ratios)) == 2, "or this test shows nothing"
    models, folder = open_models(f"replay:{recording}", task), tmp_path / "again"
    request = Request(task, DEVICE, models, folder=folder, options=limited)
    stopped = run_request(request, judge=NoJudge())
    assert stopped.summary.ended is not None and stopped.summary.ended.reason in (
        "budget",
        "evaluations",
    )
    request = Request(
        task, DEVICE, open_models(f"replay:{recording}", task), folder=folder, options=run_options()
    )
    again = run_request(request, judge=NoJudge(), past=resumed(folder))
    assert again.summary.ended == whole.summary.ended
    said = [
        [r.event.model_dump_json() for r in finished(read(t).records)[1:]]
        for t in (whole.transcript, again.transcript)
    ]
    assert said[0] == said[1]


def test_where_the_task_has_changed_it_says_what_differs(
    task: Task, tmp_path: Path, recording: Path
) -> None:
    run(task, open_models(f"record:{recording}:scripted", task), tmp_path / "live", tied())
    toml = task.folder / "task.toml"
    toml.write_text(toml.read_text().replace("out = 2 * input", "out = twice the input"))
    changed = load_task(task.folder)
    with pytest.raises(BadInput) as caught:
        run(changed, open_models(f"replay:{recording}", changed), tmp_path / "again", NoJudge())
    words = str(caught.value)
    assert "this request from the tester is not recorded; the closest one, 1 of 2" in words
    assert "differs: - 'out = 2 * input'; + 'out = twice the input'" in words


def test_the_device_is_the_tapes(task: Task, tmp_path: Path, recording: Path) -> None:
    run(task, open_models(f"record:{recording}:scripted", task), tmp_path / "live", tied())
    played = open_models(f"replay:{recording}", task)
    assert played.played is not None and played.played.device == DEVICE
    assert played.name == "scripted" and open_models("scripted", task).played is None
    other = DEVICE.model_copy(update={"name": "another"})
    request = chat_request(task, tmp_path / "again", device=other, models=played)
    with pytest.raises(BadInput, match="Device: another"):
        run_request(request, judge=NoJudge())


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("record:", "give the file and the models"),
        ("record:tape.jsonl", "give the file and the models"),
        ("record::scripted", "give the file of the recording"),
        ("auto:tape.jsonl:nobody", "no backend 'nobody'"),
        ("replay:", "give the file of the recording"),
        ("replay:none.jsonl", "cannot read none.jsonl"),
    ],
)
def test_mistakes_are_named(
    task: Task, spec: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=words):
        open_models(spec, task)
    assert not list(tmp_path.glob("*.jsonl")), "and nothing is left behind"


def test_a_replay_takes_no_server(task: Task, recording: Path) -> None:
    with pytest.raises(BadInput, match="does not call a server"):
        open_models(f"replay:{recording}", task, "http://127.0.0.1:1/v1")
