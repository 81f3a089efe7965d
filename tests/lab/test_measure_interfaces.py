"""The time to a first judged kernel is taken of interfaces that judge it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from lab import measure_interfaces
from lab.measure_interfaces import Place, judged, seconds
from tests.chat_samples import baseline_turns, write_transcript


def test_the_first_candidate_counts_and_not_the_baseline(tmp_path: Path) -> None:
    assert judged(write_transcript(tmp_path / "whole.jsonl")) == "timed"
    assert judged(write_transcript(tmp_path / "begun.jsonl", baseline_turns())) == ""


def test_an_interface_starts_with_an_empty_folder_and_fills_the_cache() -> None:
    seen = []

    def interface(place: Place) -> str:
        seen.append((list(place.folder.iterdir()), place.cache.exists()))
        place.cache.mkdir(exist_ok=True)
        (place.folder / "file").touch()
        assert place.environment["ASTRA_CACHE"] == str(place.cache)
        return "correct"

    assert len(seconds(interface, sys.executable)) == 2
    assert seen == [([], False), ([], True)]


def test_a_kernel_that_is_not_judged_as_correct_is_no_figure() -> None:
    with pytest.raises(RuntimeError, match="not judged as correct: wrong"):
        seconds(lambda place: "wrong", sys.executable)


def test_what_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        measure_interfaces, "INTERFACES", {"an interface": lambda place: "accepted"}
    )
    measure_interfaces.main([])
    out = capsys.readouterr().out
    assert re.fullmatch(r"an interface: [\d.]+ s with nothing cached, [\d.]+ s again\n", out)


@pytest.mark.in_full
@pytest.mark.second_tier
@pytest.mark.parametrize("name", ["MCP: evaluate", "run with a mailbox"])
def test_interfaces_that_take_more_than_a_command_lead_to_a_judged_kernel(name: str) -> None:
    (taken,) = seconds(measure_interfaces.INTERFACES[name], sys.executable, times=1)
    assert taken > 1
