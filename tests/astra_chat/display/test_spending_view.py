"""What is spent, as text."""

from __future__ import annotations

from astra_chat.display.spending_view import (
    asked_whom,
    asked_words,
    judged_words,
    ledger_lines,
    time_words,
)
from astra_chat.spending.budget import Budget
from astra_chat.transcript.spending import ModelCall, Rejected, RoleSpent, Spent, StepSpent, Tokens
from astra_chat.transcript.time_use import TimeUse

ONE = Tokens(prompt=3100, cached=2048, completion=800, reasoning=512, usd=0.0042)


def test_an_answer_beside_the_budget() -> None:
    event = ModelCall(role="coder", model="openai:o4-mini", tokens=ONE)
    assert asked_words(event, ONE + ONE, Budget(tokens=200_000, usd=5)) == (
        "coder asked openai:o4-mini: 3,100 tokens in (2,048 cached), 800 out (512 reasoning),"
        " $0.0042; so far 7,800 of 200,000, $0.0084 of $5"
    )
    guessed = ModelCall(
        role="coder", model="m", tokens=Tokens(prompt=25, completion=3, estimated=28)
    )
    words = asked_words(guessed, guessed.tokens, Budget())
    assert "25 tokens in, 3 out (28 estimated: the server does not count them), $0.0000" in words
    plain = ModelCall(role="coder", model="openai:x", tokens=Tokens(prompt=1, usd=None))
    assert asked_words(plain, plain.tokens, Budget()) == (
        "coder asked openai:x: 1 tokens in, 0 out, price unknown; so far 1, price unknown"
    )


def test_it_says_who_answered_in_a_mailbox() -> None:
    event = ModelCall(role="coder", model="mailbox", tokens=ONE, answered_by="Ada\n\x1b[2J")
    assert asked_whom(event) == "coder asked mailbox, answered by Ada \\x1b[2J"
    twice = event.model_copy(update={"answered_by": "", "refused": 2})
    assert asked_whom(twice) == "coder asked mailbox (2 answers refused first)"
    assert asked_words(event, ONE, Budget()).startswith(asked_whom(event))


def test_evaluations_beside_the_budget() -> None:
    assert judged_words(3, 0.0, 35.4, Budget(tokens=5)) == "", "nothing of theirs is limited"
    budget = Budget(evaluations=40, gpu_s=600, wall_s=3600)
    assert judged_words(3, 12.2, 35.4, budget) == (
        "spent so far: 3 of 40 evaluations, 12 of 600 s on the GPU, 35 of 3,600 s in all"
    )


def test_the_ledger() -> None:
    spent = Spent(
        tokens=ONE,
        evaluations=3,
        roles=(
            RoleSpent(role="coder", answers=1, tokens=ONE),
            RoleSpent(role="selector", answers=2, tokens=ONE, unusable=1, unusable_tokens=ONE),
        ),
        steps=(StepSpent(step="build", seconds=4.25), StepSpent(step="time", seconds=1.0)),
        gpu_s=1.0,
        rejected=(Rejected(reason="wrong", times=2), Rejected(reason="tie", times=1)),
    )
    lines = ledger_lines(spent, 12.34)
    assert lines[0].startswith("models: 3 answers, 3,100 tokens in")
    assert lines[1].startswith("  coder: 1 answer, ") and lines[1].endswith("$0.0042")
    assert lines[2].endswith("$0.0042; 1 of them unusable (3,900 tokens, $0.0042)")
    assert lines[3] == "judge: 3 evaluations, build 4.2 s, time 1.0 s"
    assert lines[4] == "GPU: reserved for 1.0 s; energy unknown, utilization unknown (NVML)"
    assert lines[5:] == ["rejected: 2 wrong, 1 tie", "in all 12.3 s"]


def test_a_scripted_runs_ledger_names_no_models() -> None:
    nothing = Spent(tokens=Tokens(), roles=(), evaluations=0, steps=(), gpu_s=0.0, rejected=())
    assert ledger_lines(nothing, 1.0) == ["in all 1.0 s"]


def test_where_the_time_went_stands_beside_it() -> None:
    nothing = Spent(tokens=Tokens(), roles=(), evaluations=0, steps=(), gpu_s=0.0, rejected=())
    use = TimeUse(models_s=5.0, build_s=2.0, judge_s=3.0, device_s=1.0)
    assert ledger_lines(nothing, 10.0, use) == [
        "in all 10.0 s: models 5.0 s, builds 2.0 s, judge 3.0 s; a GPU reserved for 1.0 s (10%)"
    ]
    use = TimeUse(judge_s=9.0, device_s=4.5, lease_wait_s=1.0, outside_steps_s=2.0)
    assert time_words(use) == (
        "judge 9.0 s; a GPU reserved for 4.5 s (50%), waited for 1.0 s;"
        " 2.0 s of the judge's time are outside its steps"
    )
    assert time_words(TimeUse()) == "no time was spent waiting"
