"""The winner judged again: on the virtual GPU everything repeats."""

from __future__ import annotations

import pytest

from astra_chat.transcript.reader import read
from astra_chat.verify.measure import REPEATS, VERDICT_AGAIN, compared, measured_again
from astra_chat.verify.recorded import opened
from tests.astra_chat.verify.forgeries import H200, VIRTUAL


@pytest.mark.second_tier
def test_a_winner_repeats_on_the_virtual_gpu() -> None:
    with opened(read(VIRTUAL)) as run:
        found = {one.name: one for one in measured_again(run, "", trust=False)}
    assert {name: one.status for name, one in found.items()} == {
        VERDICT_AGAIN: "stands",
        REPEATS: "stands",
    }, found


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
