"""The winner judged again: which figures are compared. That all repeats on the virtual GPU is in
tests/astra_chat/test_run.py, on its run."""

from __future__ import annotations

from astra_chat.transcript.reader import read
from astra_chat.verify.measure import REPEATS, compared
from astra_chat.verify.recorded import opened
from tests.astra_chat.verify.forgeries import H200, VIRTUAL


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
