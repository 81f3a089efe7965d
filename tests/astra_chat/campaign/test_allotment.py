"""Runs side by side never spend more than the campaign's budget."""

from __future__ import annotations

from astra_chat.campaign.driver import allotted, reserved, spent_by, used_up
from astra_chat.campaign.plan import RunPlan
from astra_chat.campaign.rows import CampaignRow
from astra_chat.spending.budget import parse_budget

PLAN = RunPlan(
    id="a", task="t", strategy="best", model="m", start="sglang", device="virtual", repeat=1
)
NEW = CampaignRow(plan=PLAN)
NONE = parse_budget("")


def test_without_limits_everything_may_start() -> None:
    assert allotted(NEW, NONE, NONE, [{"tokens": 1e12}]) == NONE
    assert allotted(NEW, parse_budget("usd=2"), NONE, []) == parse_budget("usd=2")


def test_a_run_gets_its_own_budget_whole_or_is_not_started() -> None:
    run, whole = parse_budget("tokens=30,wall_s=9"), parse_budget("tokens=100")
    assert allotted(NEW, run, whole, [{"tokens": 70}]) == run
    assert allotted(NEW, run, whole, [{"tokens": 30}, {"tokens": 41}]) is None


def test_a_run_without_a_limit_of_its_own_gets_what_is_left() -> None:
    whole = parse_budget("evaluations=10")
    assert allotted(NEW, NONE, whole, [{"evaluations": 4}]) == parse_budget("evaluations=6")
    assert allotted(NEW, NONE, whole, [{"evaluations": 10}]) is None
    begun = NEW.model_copy(update={"evaluations": 6})
    assert allotted(begun, NONE, whole, [{"evaluations": 4}]) is None


def test_a_run_under_way_counts_with_all_that_it_may_spend() -> None:
    begun = NEW.model_copy(update={"tokens": 7, "evaluations": 3})
    claim = reserved(begun, parse_budget("tokens=50"))
    assert claim["tokens"] == 50 and claim["evaluations"] == 3


def test_an_unknown_price_leaves_nothing() -> None:
    unknown = NEW.model_copy(update={"usd": None})
    whole = parse_budget("usd=5")
    assert allotted(NEW, NONE, whole, [spent_by(unknown)]) is None
    assert "usd: inf of 5 spent" in used_up(whole, [unknown])
