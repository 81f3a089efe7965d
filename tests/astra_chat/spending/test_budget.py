"""Budgets as text, and whole runs that stop at one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astra_chat.models.open_models import open_models
from astra_chat.models.script import load_script
from astra_chat.session.request import Request
from astra_chat.session.results import RunResult
from astra_chat.session.resume import Past, resumed
from astra_chat.session.session import run_request
from astra_chat.spending.budget import Budget, parse_budget
from astra_chat.tools.task.folder import Task
from astra_chat.transcript.events import Chosen, RejectedReply
from astra_chat.transcript.reader import read
from astra_chat.transcript.spending import ModelCall, Spent, Tokens
from astra_chat.transcript.summary import summarize
from astra_chat.transcript.turns import turns_of
from astra_vgpu.ground.errors import BadInput, MissingDependency
from tests.astra_chat.fake_openai import Asked as Question
from tests.astra_chat.fake_openai import FakeOpenAI, Reply, by_script, in_order, said, serving
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import DEVICE, KERNELS, FixedJudge, run_options, timed

PRICED = "usd_in=100,usd_cached=10,usd_out=1000"
"""Dear tokens, so that an answer of the fake server costs a few cents."""
ANSWER_USD = (36 * 100 + 64 * 10 + 20 * 1000) / 1e6


def test_words_become_limits() -> None:
    found = parse_budget("tokens=200000,usd=5.5,wall_s=3600,evaluations=40,gpu_s=600")
    assert found == Budget(tokens=200000, usd=5.5, wall_s=3600.0, evaluations=40, gpu_s=600.0)
    assert parse_budget(None) == parse_budget("") == Budget()
    assert parse_budget(str(found)) == found and str(Budget()) == ""


def test_what_is_left_is_told_of_what_is_limited_and_never_of_time() -> None:
    spent = Tokens(prompt=1000, completion=200, usd=0.125)
    limited = parse_budget("tokens=5000,usd=2,evaluations=9,wall_s=60,gpu_s=60")
    assert limited.left(spent, 4) == (
        "3,800 of 5,000 tokens, $1.88 of $2.00,"
        " 5 of 9 evaluations, one of which is reserved for the winner's confirmation"
    )
    assert parse_budget("tokens=1000").left(spent, 0) == "0 of 1,000 tokens"
    assert parse_budget("wall_s=60").left(spent, 0) == Budget().left(spent, 0) == ""
    unknown = spent.model_copy(update={"usd": None})
    assert parse_budget("usd=2").left(unknown, 0) == "", "of an unknown price nothing is left known"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("euros=5", "there is no limit 'euros': use tokens, usd, wall_s, evaluations or gpu_s"),
        ("usd", "'usd': give each limit once, as usd=NUMBER"),
        ("usd=1,usd=2", "give each limit once"),
        ("tokens=many", "--budget: tokens: "),
        ("usd=0", "--budget: usd: "),
        ("usd=-1", "--budget: usd: "),
        ("usd=nan", "--budget: usd: "),
    ],
)
def test_mistakes_are_named(words: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_budget(words)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def run(
    task: Task,
    out: Path,
    budget: str,
    server: FakeOpenAI | None,
    past: Past | None = None,
    judge: FixedJudge | None = None,
) -> RunResult:
    """With live models where there is a server, else scripted ones."""
    spec, url = (f"openai:m,{PRICED}", server.url) if server else ("scripted", None)
    request = chat_request(
        task, out, models=open_models(spec, task, url), options=run_options(budget=budget)
    )
    tied = FixedJudge({KERNELS["vector.cu"]: timed(1.0, "tie")})
    return run_request(request, judge=judge or tied, past=past)


def ended(result: RunResult) -> tuple[str, str]:
    end = result.summary.ended
    assert end is not None
    return end.reason, end.words.lower()


def test_tokens_stop_a_run_before_the_next_prompt(task: Task, tmp_path: Path) -> None:
    with serving(by_script(load_script(task))) as server:
        result = run(task, tmp_path / "out", "tokens=6000", server)
        reason, words = ended(result)
        assert reason == "budget" and "budget of 6,000 tokens is used up" in words
        spent = result.summary.spent
        assert spent is not None and 0 < spent.tokens.total < 6000
        assert spent.tokens.total == 120 * len(server.asked)
        assert spent.tokens.total > 500, "not at the first prompt"


def test_tokens_stop_a_run_with_a_server_that_counts_none(task: Task, tmp_path: Path) -> None:
    script = by_script(load_script(task))

    def uncounted(asked: Question) -> Reply:
        body = json.loads(script(asked).body)
        return Reply(json.dumps({**body, "usage": None}))

    with serving(uncounted) as server:
        result = run(task, tmp_path / "out", "tokens=9000", server)
    assert ended(result)[0] == "budget"
    spent = result.summary.spent
    assert spent is not None and 0 < spent.tokens.total == spent.tokens.estimated < 9000


def test_money_stops_a_run_by_the_price_of_cached_tokens(task: Task, tmp_path: Path) -> None:
    with serving(by_script(load_script(task))) as server:
        result = run(task, tmp_path / "out", "usd=0.25", server)
    reason, words = ended(result)
    assert reason == "budget" and "the budget of $0.25 is used up" in words
    spent = result.summary.spent
    assert spent is not None and spent.tokens.usd == pytest.approx(ANSWER_USD * len(server.asked))
    assert spent.tokens.usd < 0.25
    assert spent.tokens.cached == 64 * len(server.asked)


def test_money_needs_a_price(task: Task, tmp_path: Path) -> None:
    models = open_models("openai:unheard-of", task, "http://127.0.0.1:1/v1")
    request = Request(task, DEVICE, models, folder=tmp_path, options=run_options(budget="usd=1"))
    with pytest.raises(BadInput, match="price of the tester's model is unknown: give usd_in="):
        run_request(request, judge=FixedJudge())


def test_evaluations_are_counted_with_the_baselines(task: Task, tmp_path: Path) -> None:
    judge = FixedJudge()
    result = run(task, tmp_path / "out", "evaluations=2", None, judge=judge)
    assert ended(result)[0] == "evaluations" and len(judge.evaluated) == 2
    assert "the budget of evaluations is used up" in ended(result)[1]


@pytest.mark.parametrize("most", [3, 4])
def test_the_last_evaluation_confirms(task: Task, tmp_path: Path, most: int) -> None:
    """Nobody is asked for a plan that could not be run."""
    judge = FixedJudge({KERNELS["wrong.cu"]: timed(1.2)})
    result = run(task, tmp_path / "out", f"evaluations={most}", None, judge=judge)
    best, rounds = result.summary.best, result.summary.rounds
    assert ended(result)[0] == "evaluations" and best is not None and best.confirmed
    assert len(judge.evaluated) == most and len(rounds) == most - 2


def test_what_was_found_before_is_kept(task: Task, tmp_path: Path) -> None:
    faster = FixedJudge({KERNELS["wrong.cu"]: timed(1.2)})
    result = run(task, tmp_path / "out", "evaluations=2", None, judge=faster)
    assert result.summary.best is not None and result.summary.best.ratio == 1.2
    assert (tmp_path / "out" / "best.cu").is_file() and (tmp_path / "out" / "best").is_dir()


def test_time_stops_a_run(task: Task, tmp_path: Path) -> None:
    slow = FixedJudge()
    slow.before = lambda: __import__("time").sleep(0.3)
    result = run(task, tmp_path / "out", "wall_s=0.25", None, judge=slow)
    assert ended(result)[0] == "budget" and len(slow.evaluated) == 1


def test_a_budget_counts_all_sessions(task: Task, tmp_path: Path) -> None:
    run(task, tmp_path / "out", "evaluations=2", None)
    again = run(task, tmp_path / "out", "evaluations=2", None, resumed(tmp_path / "out"))
    assert ended(again)[0] == "evaluations"
    more = run(task, tmp_path / "out", "evaluations=9", None, resumed(tmp_path / "out"))
    assert ended(more)[0] == "no_plan"
    assert more.summary.spent is not None and more.summary.spent.evaluations == 4


def test_every_answer_is_recorded_before_what_came_of_it(task: Task, tmp_path: Path) -> None:
    first = [said("Sure!"), said(None, refusal="I won't.")]
    script = by_script(load_script(task))
    with serving(
        lambda asked: first.pop(0) if asked.role == "planner" and first else script(asked)
    ) as server:
        result = run(task, tmp_path / "out", "", server)
    events = [record.event for record in read(result.transcript).records]
    asked = [event for event in events if isinstance(event, ModelCall)]
    assert len(asked) == len(server.asked)
    for place, event in enumerate(events):
        if isinstance(event, RejectedReply):
            before = events[place - 1]
            assert isinstance(before, ModelCall) and before.role == event.speaker
        if isinstance(event, Chosen) and event.decision.by == "model":
            before = events[place - 1]
            assert isinstance(before, ModelCall) and before.role == "selector"
    ledger = events[-2]
    assert isinstance(ledger, Spent)
    answers = {role.role: role.answers for role in ledger.roles}
    planned = sum(turn.speaker == "planner" for turn in turns_of(read(result.transcript).records))
    assert answers["planner"] == planned + 2 and answers["selector"] == 1
    assert {one.reason: one.times for one in ledger.rejected}["unusable reply"] == 2


def test_a_scripted_run_asks_no_model_and_counts_none(task: Task, tmp_path: Path) -> None:
    result = run(task, tmp_path / "out", "tokens=1,usd=1", None)
    assert ended(result)[0] == "no_plan"
    assert result.summary.spent is not None and result.summary.spent.tokens == Tokens()


def test_a_filtered_answer_costs_too(task: Task, tmp_path: Path) -> None:
    with (
        serving(in_order(said(None, finish="content_filter"))) as server,
        pytest.raises(MissingDependency, match="no usable reply"),
    ):
        run(task, tmp_path / "out", "", server)
    spent = summarize(read(tmp_path / "out").records).spent
    assert spent is not None and len(server.asked) == 3 + 9, "the tester's and the planner's"
    assert spent.tokens.total == 120 * len(server.asked)
