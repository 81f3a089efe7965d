"""Figures of a measurement are recomputed from its samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.timing.raw_samples import pack
from astra_chat.transcript.reader import read
from astra_chat.verify.claims import Claim
from astra_chat.verify.figure_claims import SAMPLES, figure_claims
from astra_chat.verify.recorded import opened
from tests.astra_chat.verify.forgeries import H200, Edit, forged, judged, samples, with_samples


def first_samples(edit: Edit, folder: Path) -> Claim:
    def both(events: list[dict[str, object]]) -> None:
        with_samples(events)
        edit(events)

    with opened(read(forged(both, folder, H200))) as run:
        return next(one for one in figure_claims(run) if one.name == SAMPLES)


def test_figures_that_follow_from_their_samples_stand(tmp_path: Path) -> None:
    assert first_samples(lambda events: None, tmp_path).status == "stands"


@pytest.mark.parametrize(
    ("name", "value"),
    [("ratio_low", 1.49), ("baseline_us", 3.2), ("noise", 0.0), ("warm_us", 1.1), ("blocks", 30)],
)
def test_another_figure_than_that_of_the_samples_fails(
    name: str, value: float, tmp_path: Path
) -> None:
    def edit(events: list[dict[str, object]]) -> None:
        judged(events, 0)["outcome"]["cases"][0][name] = value

    found = first_samples(edit, tmp_path)
    assert found.status == "fails" and name in found.why


def test_samples_that_are_none_fail(tmp_path: Path) -> None:
    def edit(events: list[dict[str, object]]) -> None:
        judged(events, 0)["outcome"]["cases"][0]["raw"] = "AAAA"

    assert first_samples(edit, tmp_path).status == "fails"


def test_samples_without_a_logarithm_fail(tmp_path: Path) -> None:
    def edit(events: list[dict[str, object]]) -> None:
        block = samples().blocks[0].model_copy(update={"candidate": (0.0, 0.0)})
        text = pack(samples().model_copy(update={"blocks": (block,)}))
        case = judged(events, 0)["outcome"]["cases"][0]
        case["raw"], case["limit_us"] = text, 0.0

    assert first_samples(edit, tmp_path).status == "fails"
