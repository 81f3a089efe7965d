"""The table of estimates beside measured winners, from what is recorded."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from astra_chat.tools.recordings.reading import read_recorded
from astra_chat.tools.types import Unsupported
from astra_vgpu.ground.errors import BadInput
from lab import live_estimates
from lab.live_runs import LiveRun, load
from tests.recorded_files import LIVE, live_runs

ROOT = Path(__file__).resolve().parents[2]
ESTIMATES = LIVE / "estimates.json"


@pytest.fixture(scope="module")
def runs() -> list[LiveRun]:
    return load(live_runs())


@pytest.mark.second_tier
def test_the_document_has_the_table_of_what_is_recorded(runs: list[LiveRun]) -> None:
    table = live_estimates.document(live_estimates.read_estimates(ESTIMATES), runs)
    assert table in (ROOT / "docs" / "research" / "estimate.md").read_text()


@pytest.mark.second_tier
def test_every_measured_winner_is_estimated_once(
    runs: list[LiveRun], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Given its own file again, the command finds none left but those that launch clusters."""

    def only_clusters(*given: object) -> tuple[Unsupported]:
        (source,) = cast("list[str]", given[3])
        assert "ClusterDimension" in source or "cluster_dims" in source
        left.append(source)
        return (Unsupported(what="a launch with a cluster", kernel="", opcode="", line=0),)

    left = list[str]()
    monkeypatch.setattr(live_estimates, "estimated_times", only_clusters)
    kept = tmp_path / ESTIMATES.name
    kept.write_bytes(read_recorded(ESTIMATES))
    live_estimates.estimate(runs, kept)
    found = live_estimates.read_estimates(kept).winners
    assert found == live_estimates.read_estimates(ESTIMATES).winners
    assert len({(one.candidate, one.gpu) for one in found}) == len(found)
    assert len(found) == len(live_estimates.measured_on_gpus(runs)) - len(left)


@pytest.mark.second_tier
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
