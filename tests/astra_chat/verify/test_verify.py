"""verify: every claim of the committed runs, and forgeries that it notices."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from astra_chat.tools.recordings.reading import expanded
from astra_chat.transcript.reader import read
from astra_chat.verify.draw_claims import BESIDE, BUILT_ANEW, CHECKED, HIDDEN, SEEDS, TIMED
from astra_chat.verify.figure_claims import BASIS, ERRORS, LIMITS, RATIOS, STEPS, VERDICT
from astra_chat.verify.recorded import opened
from astra_chat.verify.run_claims import (
    BASELINE,
    CONFIRMED,
    HARNESS,
    LEDGER,
    NAMES,
    TASK,
    TEXTS,
    WINNER,
)
from astra_chat.verify.verify import REPEATS, compared, verify
from tests.astra_chat.verify.forgeries import H200, VIRTUAL, Edit, forged, judged, last
from tests.recorded_files import EXAMPLES, PLAIN


@pytest.mark.parametrize(
    "path",
    [*PLAIN.glob("virtual/*.jsonl*"), *expanded([EXAMPLES / "virtual/*.jsonl"])],
    ids=lambda p: p.stem,
)
@pytest.mark.second_tier
def test_all_claims_of_a_run_in_the_present_format_stand(path: Path) -> None:
    found = verify(read(path))
    assert found.stands and not found.notes
    assert {one.name for one in found.claims if one.status == "unchecked"} == {REPEATS}


@pytest.mark.second_tier
@pytest.mark.parametrize("path", expanded([EXAMPLES / "h200/*.jsonl"]), ids=lambda p: p.stem)
def test_measured_runs_stand_but_what_was_drawn_or_built_elsewhere(path: Path) -> None:
    """An older judge drew other cases and seeds for the confirmation."""
    found = verify(read(path))
    assert found.stands and not found.notes
    reasons = Counter(one.why for one in found.claims if one.name == BESIDE)
    resumed = path.stem == "fused_add_rmsnorm"
    assert reasons[BUILT_ANEW] == (2 if resumed else 0) and set(reasons) <= {"", BUILT_ANEW}
    others = [one for one in found.claims if one.status == "unchecked" and one.name != BESIDE]
    names = Counter(one.name for one in others)
    assert names.pop(HIDDEN) > 0 and names == {TIMED: 1, REPEATS: 1}
    drawn = [one for one in others if one.name != REPEATS]
    assert all("another version of the judge" in one.why for one in drawn)


@pytest.mark.second_tier
def test_one_baseline_for_all_of_a_session(tmp_path: Path) -> None:
    """In a local session another machine code is another baseline; of several machines nobody
    knows."""

    def another(events: list[dict[str, Any]]) -> None:
        judged(events)["evidence"]["baseline_cubin_sha256"] = "0" * 64

    def elsewhere(events: list[dict[str, Any]]) -> None:
        another(events)
        events[0]["options"]["judge"] = "detached"

    for edit, status in ((another, "fails"), (elsewhere, "unchecked")):
        found = verify(read(forged(edit, tmp_path)))
        assert [one.status for one in found.claims if one.name == BESIDE][-1] == status


@pytest.mark.second_tier
def test_an_older_run_says_what_cannot_be_checked() -> None:
    found = verify(read(H200))
    assert found.stands and 0.6 < found.share < 0.7
    reasons = {one.why for one in found.claims if one.status == "unchecked"}
    assert "recorded before samples were kept" in reasons and all(reasons)


def changed(name: str, value: object) -> Edit:
    """A field of the winner's confirmation, by its path."""

    def edit(events: list[dict[str, object]]) -> None:
        *path, key = name.split(".")
        place: object = judged(events)
        for part in path:
            place = place[int(part) if isinstance(place, list) else part]  # type: ignore[index]
        place[int(key) if isinstance(place, list) else key] = value  # type: ignore[index]

    return edit


def ended(name: str, value: object) -> Edit:
    return lambda events: last(events, "ended").update({name: value})


def _task(events: list[dict[str, object]]) -> None:
    events[0]["task"]["id"] = "0" * 64  # type: ignore[index]


def _text(events: list[dict[str, object]]) -> None:
    blob = next(one for one in events if one["kind"] == "blob")
    blob["text"] = f"{blob['text']}\n// another\n"


def _name(events: list[dict[str, object]]) -> None:
    last(events, "proposed")["candidate"] = "0" * 12


def _ledger(events: list[dict[str, object]]) -> None:
    last(events, "spent")["evaluations"] = 3


def _baseline(events: list[dict[str, object]]) -> None:
    judged(events, 0)["candidate"] = "d4ccd01bfc0a"


def _unconfirmed(events: list[dict[str, object]]) -> None:
    judged(events)["confirms"] = False


def _weightless(events: list[dict[str, Any]]) -> None:
    for case in judged(events)["outcome"]["cases"]:
        case["weight"] = 0


FORGERIES: dict[str, tuple[Edit, str]] = {
    "a text": (_text, TEXTS),
    "the task's id": (_task, TASK),
    "a candidate's name": (_name, NAMES),
    "another baseline": (_baseline, BASELINE),
    "another judge": (changed("evidence.judge_sha256", "0" * 64), HARNESS),
    "a chosen seed": (changed("seed", "cca8f8738e32-0000000000000000"), SEEDS),
    "a hidden case": (changed("check.hidden.0.dims.tokens", 77), HIDDEN),
    "an own case left out": (changed("check.visible", []), CHECKED),
    "the number of cases": (changed("outcome.correct.cases", 9999), CHECKED),
    "a weight": (changed("outcome.cases.0.weight", 50.0), TIMED),
    "the ratio": (changed("outcome.ratio", 1.9), VERDICT),
    "the verdict": (changed("outcome.verdict", "tie"), VERDICT),
    "a case's ratio": (changed("outcome.cases.1.ratio", 1.4), RATIOS),
    "a case's time": (changed("outcome.cases.1.median_us", 1.2), RATIOS),
    "below the limit": (changed("outcome.cases.1.limit_us", 3.0), RATIOS),
    "an error": (changed("outcome.correct.worst", 1.5), ERRORS),
    "a step left out": (changed("steps", []), STEPS),
    "measured on no GPU": (changed("outcome.profile.basis", "measured"), BASIS),
    "the winner": (ended("best", "8f3af8862d22"), WINNER),
    "the winner's ratio": (ended("ratio", 1.7), WINNER),
    "no confirmation": (_unconfirmed, CONFIRMED),
    "the ledger": (_ledger, LEDGER),
    "a time of nothing": (changed("outcome.cases.1.median_us", 0), RATIOS),
    "weights of nothing": (_weightless, VERDICT),
    "a root that is none": (ended("seed", "xyz"), SEEDS),
}


@pytest.mark.parametrize("what", FORGERIES)
@pytest.mark.second_tier
def test_a_forgery_fails(what: str, tmp_path: Path) -> None:
    edit, name = FORGERIES[what]
    found = verify(read(forged(edit, tmp_path)))
    failing = Counter(one.name for one in found.claims if one.status == "fails")
    if name == HIDDEN:  # of another judge's version it cannot be told whether it drew otherwise
        failing.update(one.name for one in found.claims if one.status == "unchecked")
    assert failing[name], failing
    assert all(one.why for one in found.claims if one.status != "stands")


@pytest.mark.second_tier
def test_a_time_below_the_limit_fails(tmp_path: Path) -> None:
    def edit(events: list[dict[str, object]]) -> None:
        for name, value in (("median_us", 0.4), ("percent_of_limit", 125.0)):
            changed(f"outcome.cases.1.{name}", value)(events)

    found = verify(read(forged(edit, tmp_path)))
    assert LIMITS in {one.name for one in found.claims if one.status == "fails"}


@pytest.mark.second_tier
def test_a_killed_run_is_checked_as_far_as_it_goes(tmp_path: Path) -> None:
    path = forged(lambda events: None, tmp_path)
    path.write_text("\n".join(path.read_text().splitlines()[:-2]) + "\n")
    found = verify(read(path))
    assert found.stands and "killed before it ended" in found.notes[0]
    assert {SEEDS, WINNER} <= {one.name for one in found.claims if one.status == "unchecked"}


def test_times_of_two_devices_are_not_compared() -> None:
    with opened(read(VIRTUAL)) as virtual, opened(read(H200)) as measured:
        pair = virtual.state.best, measured.state.best
    assert pair[0] and pair[1]
    found = compared(pair[1][0], pair[0][0])
    assert [one.status for one in found] == ["unchecked", "unchecked"]


def test_a_slower_winner_fails() -> None:
    with opened(read(H200)) as run:
        best = run.state.best
    assert best
    slow = [
        case.model_copy(update={"median_us": 2 * case.median_us, "ratio": case.ratio / 2})
        for case in best[1].cases
    ]
    now = best[1].model_copy(update={"cases": tuple(slow), "ratio": best[1].ratio / 2})
    found = compared(best[0], best[0].model_copy(update={"outcome": now}))
    assert [(one.name, one.status) for one in found][1] == (REPEATS, "fails")
    assert all(one.status == "stands" for one in compared(best[0], best[0]))
