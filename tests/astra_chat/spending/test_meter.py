"""The meter: what is checked before each spend."""

from __future__ import annotations

import pytest

from astra_chat.models.metered import MeteredJudge
from astra_chat.spending.budget import Budget, BudgetSpent
from astra_chat.spending.meter import Meter
from astra_chat.spending.prices import Price
from astra_chat.tools.evaluation import Evaluation, Step
from astra_chat.tools.tuning.halving_rounds import Halving, HalvingRound
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import Device
from astra_chat.transcript.events import ChatMessage, Record
from astra_chat.transcript.ledger import ledger
from astra_chat.transcript.spending import Spent, Tokens, TuningSpent
from astra_vgpu.ground.errors import BadInput
from tests.chat_samples import SCALAR, FixedJudge, evaluation, timed

PRICE = Price.model_validate({"in": 1000.0, "cached": 100.0, "out": 1000.0})
NOTHING = Spent(tokens=Tokens(), roles=(), evaluations=0, steps=(), gpu_s=0.0, rejected=())


def test_the_next_prompt_counts_before_it_is_sent() -> None:
    meter = Meter(Budget(tokens=1000))
    meter.before_asking(3000, None)
    with pytest.raises(BudgetSpent, match="0 spent, and the next prompt has about 1,000"):
        meter.before_asking(4000, None)
    meter.asked("coder", "m", Tokens(prompt=500, completion=400))
    with pytest.raises(BudgetSpent, match="900 spent"):
        meter.before_asking(400, None)
    meter.before_asking(396, None)


def test_money() -> None:
    meter = Meter(Budget(usd=1.0))
    meter.before_asking(3996, PRICE)
    with pytest.raises(BudgetSpent, match="next prompt costs about"):
        meter.before_asking(4000, PRICE)
    meter.asked("coder", "m", Tokens(prompt=1, usd=1.0))
    with pytest.raises(BudgetSpent, match="the budget of"):
        meter.before_asking(0, PRICE)


def test_earlier_sessions_count() -> None:
    before = NOTHING.model_copy(
        update={"tokens": Tokens(prompt=90), "evaluations": 3, "gpu_s": 50.0}
    )
    with pytest.raises(BudgetSpent, match="90 spent"):
        Meter(Budget(tokens=100), before).before_asking(40, None)
    with pytest.raises(BudgetSpent, match="3 evaluations"):
        Meter(Budget(evaluations=3), before).before_evaluating()
    with pytest.raises(BudgetSpent, match="50 GPU seconds"):
        Meter(Budget(gpu_s=50), before).before_evaluating()
    with pytest.raises(BudgetSpent, match="60 s is used up: 70 s have passed"):
        Meter(Budget(wall_s=60), before, before_s=70.0).before_building()


def test_time_is_looked_at_before_anything() -> None:
    now = 0.0
    meter = Meter(Budget(wall_s=10), clock=lambda: now)
    judge = MeteredJudge(FixedJudge(), meter)
    judge.build(SCALAR)
    judge.evaluate(SCALAR)
    now = 10.0
    for step in (
        lambda: judge.build(SCALAR),
        lambda: judge.evaluate(SCALAR),
        lambda: meter.before_asking(0, None),
    ):
        with pytest.raises(BudgetSpent, match="10 s have passed"):
            step()


def test_gpu_seconds_are_those_of_a_real_gpu() -> None:
    cuda = Device(kind="cuda", name="NVIDIA H200", arch="sm_90", spec="h200")
    steps = (
        Step(name="build", seconds=9.0),
        Step(name="check", seconds=1.0),
        Step(name="time", seconds=2.0),
    )
    found = evaluation(SCALAR, timed(1.0, "tie")).model_copy(update={"steps": steps})

    class Judge(FixedJudge):
        on = found

        def evaluate(
            self, source: str, extra_cases: object = (), *, fresh_seeds: bool = False
        ) -> Evaluation:
            return self.on

    meter = Meter(Budget(gpu_s=3.0))
    judge = Judge()
    MeteredJudge(judge, meter).evaluate(SCALAR)
    meter.before_evaluating()
    judge.on = found.model_copy(update={"device": cuda})
    MeteredJudge(judge, meter).evaluate(SCALAR)
    with pytest.raises(BudgetSpent, match="3 GPU seconds is used up"):
        meter.before_evaluating()


def test_money_cannot_be_limited_after_answers_of_unknown_price() -> None:
    before = NOTHING.model_copy(update={"tokens": Tokens(prompt=90, usd=None)})
    Meter(Budget(tokens=100), before).require_prices({"coder": PRICE})
    with pytest.raises(BadInput, match="the price of answers in earlier sessions is unknown"):
        Meter(Budget(usd=1.0), before).require_prices({"coder": PRICE})


def test_answers_are_handed_over_once_oldest_first() -> None:
    meter = Meter(Budget())
    for role, number in (("coder", 1), ("planner", 2), ("planner", 3), ("planner", 4)):
        meter.asked(role, "m", Tokens(prompt=number))  # type: ignore[arg-type]
    assert [one.tokens.prompt for one in meter.take("planner", 1)] == [2]
    assert [one.tokens.prompt for one in meter.take("planner")] == [3, 4]
    assert [one.tokens.prompt for one in meter.take()] == [1] and meter.take() == []


def test_a_price_that_is_not_known_makes_the_sum_unknown() -> None:
    assert (Tokens(usd=1.0) + Tokens(usd=None)).usd is None
    assert ledger([]).tokens.usd == 0.0


def test_points_that_a_gpu_measures_count_as_evaluations() -> None:
    """One evaluation is kept for the point that is found, one for its confirmation."""
    rounds = (HalvingRound(entered=4, cases=2, timings=8, seconds=3.0, dropped=()),)
    found = Tuning(
        candidate="c",
        combinations=9,
        points=(),
        start={},
        best={},
        seconds=5.0,
        gpu_s=3.0,
        halving=Halving(rounds=rounds, left=("c",)),
    )
    meter = Meter(Budget(evaluations=7, gpu_s=4))
    assert meter.before_tuning(16) == 5 and Meter(Budget()).before_tuning(16) == 16
    meter.tuned(found)
    assert meter.before_tuning(16) == 1 and meter.left().startswith("3 of 7 evaluations")
    meter.tuned(found)
    with pytest.raises(BudgetSpent, match="7 evaluations"):
        meter.before_tuning(16)
    spent = NOTHING.model_copy(update={"evaluations": 2, "tuning": ledger_of(found)})
    assert spent.runs == 6
    with pytest.raises(BudgetSpent, match="6 evaluations"):
        Meter(Budget(evaluations=6), spent).before_evaluating()


def ledger_of(found: Tuning) -> TuningSpent | None:
    said = ChatMessage(speaker="executor", payload=found)
    return ledger([Record(run="r", seq=0, turn=1, t=1.0, event=said)]).tuning
