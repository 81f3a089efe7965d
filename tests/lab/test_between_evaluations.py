"""Ratios of unchanged kernels in recorded runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.recordings.reading import expanded
from astra_chat.transcript.events import Judged
from astra_chat.transcript.reader import read
from astra_vgpu.ground.errors import BadInput
from lab.between_evaluations import differences, document
from tests.recorded_files import LIVE

ROOT = Path(__file__).resolve().parents[2]
RUN = LIVE / "detached/fused_add_rmsnorm-sglang-team-2.jsonl"


def test_a_kernel_beside_itself_and_beside_another() -> None:
    found = [r.event.evaluation for r in read(RUN).records if isinstance(r.event, Judged)]
    assert all(log == 0 and half > 0 for log, half in differences(found[1], found[1]))
    assert len(differences(found[1], found[1])) == 15
    assert differences(found[0], found[1]) == [], "the baseline launches other functions"
    assert 0 < len(differences(found[2], found[3])) < 15


def test_the_pages_figures_are_of_the_recorded_runs() -> None:
    text = document(expanded([LIVE / "detached/*.jsonl"]))
    page = (ROOT / "docs/research/measurements.md").read_text()
    assert all(line in page for line in text.splitlines())


def test_runs_of_estimates_have_none() -> None:
    with pytest.raises(BadInput, match="unchanged"):
        document([LIVE / "paper-table/silu_and_mul-sglang-single-1.jsonl"])
