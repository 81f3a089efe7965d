"""Stops of a virtual rank: until its peers can do no more, at accesses of shared memory."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from astra_chat.tools.runners.ranks.boards import (
    BOARD_WORDS,
    DONE,
    MET,
    REPEATED,
    STEPS,
    STOPPED,
    Board,
    Boards,
)
from astra_chat.tools.runners.ranks.drawn_pauses import (
    FIRST_GUESS,
    HANG_REPEATS,
    StoppingBytes,
    Stops,
    WaitsForever,
)

ITEMS = np.arange(4)


@pytest.fixture
def lock() -> Iterator[int]:
    file = os.memfd_create("shared")
    yield file
    os.close(file)


def board() -> Board:
    return np.zeros(BOARD_WORDS, np.uint64)


def stopping(*draws: Random | None, peers: tuple[Board, ...] = ()) -> tuple[Stops, Board]:
    boards = Boards()
    boards.peers += peers
    return Stops(iter(draws), boards), boards.own


def steps_and_repeats(own: Board) -> tuple[int, int]:
    return int(own[STEPS]), int(own[REPEATED])


def test_a_load_that_is_made_again_is_a_repetition(lock: int) -> None:
    stops, own = stopping()
    words = StoppingBytes.of(np.zeros(64, np.uint8), stops, lock).view(np.uint32)
    for _ in range(3):
        assert words.take(ITEMS).tolist() == [0] * 4
    assert steps_and_repeats(own) == (1, 2)
    words.take(ITEMS + 1)
    words.take(ITEMS)
    assert steps_and_repeats(own) == (2, 3)
    words[ITEMS] = 7
    assert words.take(ITEMS).tolist() == [7] * 4
    assert steps_and_repeats(own) == (4, 3)


def test_an_atomic_operation_that_changes_nothing_is_one_too(lock: int) -> None:
    stops, own = stopping()
    words = StoppingBytes.of(np.zeros(64, np.uint8), stops, lock).view(np.uint32)
    for more in (0, 0, 1, 0):
        words[ITEMS] = words[ITEMS] + more
    assert steps_and_repeats(own) == (2, 2)
    assert words.take(ITEMS).tolist() == [1] * 4


def test_a_stop_ends_once_the_peer_only_waits() -> None:
    peer, ended = board(), threading.Event()
    stops, own = stopping(peers=(peer,))

    def works_then_waits() -> None:
        for _ in range(40):
            peer[STEPS] += np.uint64(1)
            peer[REPEATED] += np.uint64(1)
            time.sleep(0.001)
        while not ended.is_set():
            peer[REPEATED] += np.uint64(1)
            time.sleep(0.0001)

    thread = threading.Thread(target=works_then_waits)
    thread.start()
    stops.wait_for_peers()
    assert peer[STEPS] == 40 and own[STOPPED] == 0
    ended.set()
    thread.join()


def test_two_ranks_that_stop_do_not_wait_for_each_other() -> None:
    peer = board()
    peer[STOPPED] = 1
    stops, _ = stopping(peers=(peer,))
    stops.wait_for_peers()
    assert peer[STOPPED] == 1


def test_places_are_among_the_accesses_of_the_call_before(lock: int) -> None:
    stops, _ = stopping(*(Random(seed) for seed in range(20)), None)
    places = list[frozenset[int]]()
    words = StoppingBytes.of(np.zeros(64, np.uint8), stops, lock).view(np.uint32)
    for _ in range(21):
        stops.begin("call")
        places.append(stops.places)
        for at in range(4):
            words.take(np.array([at]))
        stops.end("call")
    assert max(places[0]) < FIRST_GUESS
    assert frozenset[int]().union(*places[1:20]) == {0, 1, 2, 3}
    assert not places[20] and not stops.places


def test_atomic_operations_of_two_ranks_lose_nothing(lock: int) -> None:
    memory = np.zeros(64, np.uint8)

    def adds() -> None:
        file = os.open(f"/proc/self/fd/{lock}", os.O_RDWR)
        words = StoppingBytes.of(memory, stopping()[0], file).view(np.uint32)
        for _ in range(300):
            before = words[ITEMS]
            time.sleep(0)
            words[ITEMS] = before + 1
        os.close(file)

    threads = [threading.Thread(target=adds) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert memory.view(np.uint32)[:5].tolist() == [900] * 4 + [0]


def test_ranks_take_turns_between_the_points_at_which_they_meet() -> None:
    shared, log = [board() for _ in range(3)], list[tuple[int, str]]()

    def works(rank: int) -> None:
        boards = Boards()
        boards.own, boards.peers = shared[rank], shared[:rank] + shared[rank + 1 :]
        log.append((rank, "call"))
        boards.meet(1)
        boards.wait(2, rank)
        log.append((rank, "again"))
        boards.meet(2)

    threads = [threading.Thread(target=works, args=(rank,)) for rank in (2, 0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(log[:3]) == [(rank, "call") for rank in range(3)]
    assert log[3:] == [(rank, "again") for rank in range(3)]
    assert all(own[MET] == 2 for own in shared)


def polled(stops: Stops, peers: tuple[Board, ...], times: int) -> None:
    """This rank and its peers repeat one load."""
    for _ in range(times):
        stops.before_load((1,))
        for peer in peers:
            peer[REPEATED] += np.uint64(1)


def test_ranks_that_wait_for_each_other_are_found() -> None:
    waiting, other = board(), board()
    stops, _ = stopping(peers=(waiting, other))
    polled(stops, (waiting,), 4 * HANG_REPEATS)  # the other compares its results
    other[STEPS] += np.uint64(1)
    polled(stops, (waiting, other), HANG_REPEATS)
    other[DONE] = 1
    with pytest.raises(WaitsForever):
        polled(stops, (waiting,), 2 * HANG_REPEATS)


def test_a_rank_that_does_something_new_is_waited_for() -> None:
    peer = board()
    stops, _ = stopping(peers=(peer,))
    for _ in range(6):
        polled(stops, (peer,), HANG_REPEATS)
        peer[STEPS] += np.uint64(1)
