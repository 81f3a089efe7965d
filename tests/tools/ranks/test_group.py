"""A group ends with a message whatever its ranks do; real processes, none of them with a GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from astra_chat.tools.ranks.group import RankGroup
from astra_chat.tools.run.rank_messages import Burst, RankRequest
from astra_vgpu.ground.errors import AstraError

TIMEOUT_S = 3.0
BEGIN = """
import json, sys, time, os, signal
rank = json.loads(sys.stdin.readline())["rank"]
def say(**message): print(json.dumps(message), flush=True)
say(event="memory", handles={"inputs": str(rank)})
assert [each["inputs"] for each in json.loads(sys.stdin.readline())] == ["0", "1"]
"""
WORKED = """
say(event="launched", number=0)
say(event="burst", number=0, checksums=[rank], wrong=None)
"""
WAIT = "\ntime.sleep(600)\n"


def group(code: str) -> RankGroup:
    def asked(rank: int) -> RankRequest:
        return RankRequest(
            folder=Path(),
            rank=rank,
            ranks=2,
            device="virtual",
            spec="h200",
            cases=(),
            sides=(),
            seed="",
        )

    program = (sys.executable, "-c", BEGIN + code)
    return RankGroup([asked(0), asked(1)], TIMEOUT_S, program, start_s=60)


def ended(code: str) -> tuple[str, str]:
    """How a group of such ranks ended; none of them is left."""
    ranks = group(code)
    try:
        found = ranks.run()
    finally:
        ranks.close()
    codes = [process.poll() for process in ranks.processes]
    assert None not in codes and 0 not in codes, "one was left, or slept to its end"
    assert found is not None
    return found.kind, found.message


def test_a_group_that_is_done() -> None:
    ranks = group(WORKED + 'say(event="done")' + WAIT)
    try:
        assert ranks.run() is None
        assert [[b.checksums for b in each] for each in ranks.results(Burst)] == [[(0,)], [(1,)]]
    finally:
        ranks.close()


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (
            WORKED + "\nif rank: os.kill(os.getpid(), signal.SIGKILL)" + WAIT,
            "crashed",
            "rank 1 ended (SIGKILL) after burst 0; its peers, which were waiting for it,"
            " were stopped",
        ),
        (
            WORKED + "\nif not rank: sys.exit('no memory left')" + WAIT,
            "crashed",
            "rank 0 ended (exit code 1) after burst 0: no memory left; its peers",
        ),
        (
            WORKED + "\nif not rank: say(event='launched', number=1)" + WAIT,
            "timed_out",
            "rank 1 is late after burst 0: it has launched no call for 3 s",
        ),
        (
            WORKED + "\nsay(event='launched', number=1)" + WAIT,
            "timed_out",
            "ranks 0 and 1 reported nothing for 3 s after launched 1",
        ),
        (
            "\nsay(event='failed', kind='lacking', message='no peer access')" + WAIT,
            "lacking",
            ": no peer access",
        ),
    ],
)
def test_no_rank_makes_the_others_hang(code: str, kind: str, said: str) -> None:
    found, message = ended(code)
    assert found == kind
    assert said in message


def test_what_is_no_message_is_an_error_of_ours() -> None:
    ranks = group("\nprint('hello', flush=True)" + WAIT)
    try:
        with pytest.raises(AstraError, match="sent no message: b'hello'"):
            ranks.run()
    finally:
        ranks.close()
