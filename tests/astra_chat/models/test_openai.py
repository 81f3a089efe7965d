"""Whole chats with live models, against a server that gives the script's answers or misbehaves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from astra_chat.agents.turns import Pass, Payload, Plan, Turn
from astra_chat.models.open_models import open_models
from astra_chat.models.script import load_script
from astra_chat.session.request import Request
from astra_chat.session.results import RunResult
from astra_chat.session.resume import resumed
from astra_chat.session.session import run_request
from astra_chat.tools.task.folder import Task
from astra_chat.transcript.events import Chosen, Record, RejectedReply
from astra_chat.transcript.reader import read
from astra_chat.transcript.spending import ModelCall, Spent
from astra_chat.transcript.turns import turns_of
from astra_vgpu.ground.errors import MissingDependency
from tests.astra_chat.fake_openai import Asked as Question
from tests.astra_chat.fake_openai import FakeOpenAI, Reply, by_script, failed, said, serving
from tests.chat_samples import DEVICE, KERNELS, FixedJudge, run_options, timed

KEY = "key-of-this-test-0987654321"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def run(
    task: Task, spec: str, out: Path, url: str | None = None, faster: bool = False
) -> RunResult:
    """`faster`: the last candidate is accepted, and its module takes a second to build."""
    models = open_models(spec, task, url)
    judge = FixedJudge({} if faster else {KERNELS["vector.cu"]: timed(1.0, "tie")})
    return run_request(
        Request(task, DEVICE, models, folder=out, options=run_options()), judge=judge
    )


def words(records: tuple[Record, ...]) -> list[str]:
    """Everything but the head and what was spent."""
    return [
        record.event.model_dump_json()
        for record in records[1:]
        if not isinstance(record.event, ModelCall | Spent)
    ]


def badly(
    first: dict[str, list[Reply]], then: Callable[[Question], Reply]
) -> Callable[[Question], Reply]:
    """Some roles' first requests get other replies."""
    lock = threading.Lock()

    def answer(asked: Question) -> Reply:
        with lock:
            left = first.get(asked.role)
            if left:
                return left.pop(0)
        return then(asked)

    return answer


def everything_under(folder: Path) -> bytes:
    return b"".join(p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file())


def test_a_run_with_live_models_is_the_run_of_their_answers(task: Task, tmp_path: Path) -> None:
    scripted = run(task, "scripted", tmp_path / "scripted", faster=True)
    with serving(by_script(load_script(task))) as server:
        live = run(
            task, "openai:o4-mini,coder=openai:gpt-5", tmp_path / "live", server.url, faster=True
        )
    assert words(read(live.transcript).records) == words(read(scripted.transcript).records)
    models = {asked.role: asked.body["model"] for asked in server.asked}
    assert models == dict.fromkeys(models, "o4-mini") | {"coder": "gpt-5"} and len(models) == 6
    assert live.summary.options.models.startswith("openai:o4-mini,coder=openai:gpt-5,base_url=")
    assert all(asked.headers["authorization"] == f"Bearer {KEY}" for asked in server.asked)
    assert KEY.encode() not in everything_under(tmp_path)


UNUSABLE = {
    "malformed": (said("Sure, here is my plan!"), "does not match the schema"),
    "half": (said('{"reply": {"kind": "plan"}}'), "does not match the schema"),
    "truncated": (said('{"reply": {"kind": "pl', finish="length"), "cut off after 20 tokens"),
    "fenced": (said('```json\n{"reply": 1}\n```'), "Markdown fence"),
    "refused": (said(None, refusal="I cannot help with that."), "a refusal"),
    "filtered": (said(None, finish="content_filter"), "content filter"),
    "flagged": (failed(400, "flagged", "invalid_prompt"), "content filter"),
    "empty": (said(""), "it was empty"),
    "nothing": (said(None), "it was empty"),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_unusable_replies_are_repaired_in_words(task: Task, tmp_path: Path, kind: str) -> None:
    reply, reason = UNUSABLE[kind]
    server: FakeOpenAI
    with serving(badly({"planner": [reply, reply]}, by_script(load_script(task)))) as server:
        result = run(task, "openai:m", tmp_path / "out", server.url)
    repairs = [
        r.event for r in read(result.transcript).records if isinstance(r.event, RejectedReply)
    ]
    assert [repair.speaker for repair in repairs] == ["planner"] * 2
    assert all(reason in repair.reason for repair in repairs)
    third = [asked for asked in server.asked if asked.role == "planner"][2]
    roles = [message["role"] for message in third.body["messages"]]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    assert reason in third.messages[-1], "the model is told what was wrong"
    plans = [
        t.payload for t in turns_of(read(result.transcript).records) if isinstance(t.payload, Plan)
    ]
    assert plans[0].title == "Leave the scalar loop", "and then it did better"


@pytest.mark.parametrize("kind", UNUSABLE)
@pytest.mark.second_tier
def test_repairs_in_a_row_have_a_limit(task: Task, tmp_path: Path, kind: str) -> None:
    """Then the coder leaves the plan. A planner's pass would end the run: it breaks off instead."""
    reply, reason = UNUSABLE[kind]
    answers, out = by_script(load_script(task)), tmp_path / "out"
    with serving(badly({"coder": [reply] * 3}, answers)) as server:
        left = turns_of(read(run(task, "openai:m", out, server.url).transcript).records)
    coders = [turn.payload for turn in left if turn.speaker == "coder"]
    assert isinstance(coders[0], Pass) and reason in coders[0].words
    assert sum(asked.role == "coder" for asked in server.asked) == 2 + len(coders)
    out = tmp_path / "planner"
    with (
        serving(badly({"planner": [reply] * 9}, answers)) as server,
        pytest.raises(
            MissingDependency, match="the planner's model gave no usable reply in 9 tries"
        ),
    ):
        run(task, "openai:m", out, server.url)
    assert sum(asked.role == "planner" for asked in server.asked) == 9
    with serving(answers) as server:
        past, judge = resumed(out), FixedJudge()
        models = open_models("openai:m", task, server.url)
        gone_on = run_request(
            Request(task, DEVICE, models, folder=out, options=run_options()), judge=judge, past=past
        )
    assert gone_on.summary.best is not None, "and is resumed"


@pytest.mark.parametrize("kind", UNUSABLE)
def test_the_selectors_bad_answers_too(task: Task, tmp_path: Path, kind: str) -> None:
    reply, reason = UNUSABLE[kind]
    with serving(badly({"selector": [reply]}, by_script(load_script(task)))) as server:
        result = run(task, "openai:m", tmp_path / "out", server.url)
    chosen = [
        r.event.decision
        for r in read(result.transcript).records
        if isinstance(r.event, Chosen) and len(r.event.decision.legal) > 1
    ]
    assert chosen[0].by == "model" and reason in chosen[0].rejected[0]


def test_a_busy_server_does_not_show_in_the_transcript(task: Task, tmp_path: Path) -> None:
    busy = {"coder": [failed(429), failed(500)], "selector": [failed(503)]}
    scripted = run(task, "scripted", tmp_path / "scripted", faster=True)
    with serving(badly(busy, by_script(load_script(task)))) as server:
        live = run(task, "openai:m,backoff_s=0.01", tmp_path / "live", server.url, faster=True)
    assert words(read(live.transcript).records) == words(read(scripted.transcript).records)


@pytest.mark.parametrize("role", ["planner", "selector"])
def test_a_server_that_fails_for_good_ends_the_run_in_words(
    task: Task, tmp_path: Path, role: str
) -> None:
    gone = {role: [failed(429, f"No quota for {KEY}", "insufficient_quota")]}
    with serving(badly(gone, by_script(load_script(task)))) as server:
        with pytest.raises(MissingDependency, match="no quota or credit left") as caught:
            run(task, "openai:m", tmp_path / "out", server.url)
    assert KEY not in str(caught.value) and caught.value.__cause__ is None
    ended = read(tmp_path / "out").ended
    assert ended is not None and ended.reason == "error" and "no quota" in ended.error
    assert KEY.encode() not in everything_under(tmp_path)


def test_what_a_lost_server_broke_off_goes_on(task: Task, tmp_path: Path) -> None:
    scripted = run(task, "scripted", tmp_path / "scripted")
    script = by_script(load_script(task))
    with serving(badly({"fixer": [failed(503)] * 2}, script)) as server:
        with pytest.raises(MissingDependency, match="returned HTTP 503, after 2 attempts"):
            run(task, "openai:m,tries=2,backoff_s=0.01", tmp_path / "out", server.url)
        models = open_models("openai:m", task, server.url)
        request = Request(task, DEVICE, models, folder=tmp_path / "out", options=run_options())
        judge = FixedJudge({KERNELS["vector.cu"]: timed(1.0, "tie")})
        again = run_request(request, judge=judge, past=resumed(tmp_path / "out"))
    turns = [turns_of(read(one.transcript).records) for one in (scripted, again)]
    assert [t.model_dump_json() for t in payloads(turns[0])] == [
        t.model_dump_json() for t in payloads(turns[1])
    ]


def payloads(turns: list[Turn]) -> list[Payload]:
    return [turn.payload for turn in turns]
