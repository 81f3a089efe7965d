"""The table of estimates beside measured winners, from what is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.research import live_estimates
from astra_chat.research.live_results import LiveRun, load
from astra_chat.tools.errors import BadInput

ROOT = Path(__file__).resolve().parents[3]
LIVE = ROOT / "transcripts" / "live"
ESTIMATES = LIVE / "estimates.json"


@pytest.fixture(scope="module")
def runs() -> list[LiveRun]:
    return load(sorted([*LIVE.glob("paper-table/*"), *LIVE.glob("further/*")]))


def test_the_document_has_the_table_of_what_is_recorded(runs: list[LiveRun]) -> None:
    table = live_estimates.document(live_estimates.read_estimates(ESTIMATES), runs)
    assert table in (ROOT / "docs" / "research" / "estimate.md").read_text()


def test_every_measured_winner_is_estimated_once(
    runs: list[LiveRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given its own file again, the command finds nothing left to estimate."""
    monkeypatch.setattr(live_estimates, "estimated_times", None)
    live_estimates.estimate(runs, ESTIMATES)
    found = live_estimates.read_estimates(ESTIMATES).winners
    assert len({one.candidate for one in found}) == len(found)
    assert len(found) == sum(bool(live_estimates.measured_cases(run)) for run in runs)


def test_other_cases_than_were_measured_are_refused(runs: list[LiveRun]) -> None:
    recorded = live_estimates.read_estimates(ESTIMATES)
    first, *others = recorded.winners
    cut = first.model_copy(update={"cases": first.cases[1:]})
    with pytest.raises(BadInput, match="measured on other cases"):
        live_estimates.document(recorded.model_copy(update={"winners": (cut, *others)}), runs)


def test_a_file_of_another_kind_is_one_line(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}")
    with pytest.raises(BadInput, match="contains no estimates"):
        live_estimates.read_estimates(other)
