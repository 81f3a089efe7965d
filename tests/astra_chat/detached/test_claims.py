"""Claims: of two workers one judges a job; a dead one's job is taken over, by the stated rule."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from astra_chat.detached.claims import STALE_S, Claims, Holder, JobClaim, this_worker


def elsewhere(host: str = "other") -> Holder:
    """A worker on another machine."""
    return Holder(host=host, machine=f"boot of {host}", pid=1, started="1")


def claims(me: Holder, now: list[float]) -> Claims:
    return Claims(me, clock=lambda: now[0])


def test_one_of_two_has_it_until_it_lets_go(tmp_path: Path) -> None:
    here, there = Claims(), claims(elsewhere(), [0.0])
    claim = here.take(tmp_path)
    assert isinstance(claim, JobClaim)
    assert there.take(tmp_path) == this_worker()
    with claim:
        assert not claim.lost
    assert list(tmp_path.iterdir()) == []
    assert isinstance(there.take(tmp_path), JobClaim)


def test_a_process_of_this_machine_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from astra_chat.detached.claims import Claims;"
        " Claims().take(Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["claim-0.json"]
    assert isinstance(Claims().take(tmp_path), JobClaim)
    assert {path.name for path in tmp_path.iterdir()} == {"claim-0.json", "claim-1.json"}


def test_a_number_that_another_process_has_now_is_not_the_holder(tmp_path: Path) -> None:
    before = this_worker().model_copy(update={"started": "1"})
    assert isinstance(Claims(before).take(tmp_path), JobClaim)
    assert isinstance(Claims().take(tmp_path), JobClaim)


def test_another_machine_is_watched_by_ones_own_clock(tmp_path: Path) -> None:
    """Signs of life are compared with each other, never with a clock: any time may stand there."""
    assert isinstance(claims(elsewhere(), [0.0]).take(tmp_path), JobClaim)
    path, now = tmp_path / "claim-0.json", [1000.0]
    here = claims(this_worker(), now)
    for sign in (5, 10**9, 7):
        os.utime(path, ns=(sign, sign))
        assert here.take(tmp_path) == elsewhere()
        now[0] += STALE_S - 1
        assert here.take(tmp_path) == elsewhere()
    now[0] += 2
    assert isinstance(here.take(tmp_path), JobClaim)


def test_two_take_over_and_one_wins(tmp_path: Path) -> None:
    old = claims(elsewhere(), [0.0]).take(tmp_path)
    assert isinstance(old, JobClaim)
    now = [0.0]
    one, other = claims(elsewhere("one"), now), claims(elsewhere("two"), now)
    assert one.take(tmp_path) == other.take(tmp_path) == elsewhere()
    now[0] = STALE_S
    assert isinstance(one.take(tmp_path), JobClaim)
    assert other.take(tmp_path) == elsewhere("one")
    assert old.lost


def test_what_cannot_be_read_is_taken_over_in_time(tmp_path: Path) -> None:
    (tmp_path / "claim-3.json").write_text("{")
    now = [0.0]
    here = claims(this_worker(), now)
    holder = here.take(tmp_path)
    assert isinstance(holder, Holder) and holder.name == "unknown:0"
    now[0] = STALE_S
    claim = here.take(tmp_path)
    assert isinstance(claim, JobClaim) and claim.path.name == "claim-4.json"
