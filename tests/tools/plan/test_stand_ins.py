"""Stand-in addresses: alignment, views, distances."""

from __future__ import annotations

import random
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from astra_chat.tools.plan.stand_ins import (
    ALIGNMENT,
    Argument,
    Buffer,
    Buffers,
    draw_addresses,
    draw_starts,
    usual_buffers,
)
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case

TASK = find_task("silu_and_mul")


def test_usual_buffers_follow_the_case() -> None:
    case = Case(dims={"tokens": 3, "d": 24}, dtype="float16", offset=2)
    buffers = usual_buffers(TASK, case)
    assert [(a.name, a.bytes, a.buffer) for a in buffers.arguments] == [
        ("out", 3 * 24 * 2, 0),
        ("input", 3 * 48 * 2, 1),
    ]
    assert [b.remainder for b in buffers.buffers] == [32, 32]


def test_views_keep_their_distance_and_null_stays_null() -> None:
    buffers = Buffers(
        buffers=(Buffer(4096, 64), Buffer(100)),
        arguments=(
            Argument("q", 1024, 0),
            Argument("k", 1024, 0, offset=1024),
            Argument("none", 0, None),
        ),
    )
    drawn = draw_addresses(buffers, (), random.Random(3))
    assert drawn.arguments["k"] - drawn.arguments["q"] == 1024
    assert drawn.arguments["q"] % ALIGNMENT == 64 and drawn.arguments["none"] == 0


@given(
    sizes=st.lists(st.tuples(st.integers(1, 2**40), st.integers(0, 1023)), max_size=8),
    seed=st.integers(0, 2**32),
)
def test_addresses_are_apart_and_aligned_as_asked(sizes: list[tuple[int, int]], seed: int) -> None:
    rng = random.Random(seed)
    taken = [range(2**45, 2**45 + 2**40)]
    starts = draw_starts(sizes, taken, rng)
    spans = [range(s, s + size) for s, (size, _) in zip(starts, sizes, strict=True)] + taken
    assert all(a.stop <= b.start or b.stop <= a.start for a, b in combinations(spans, 2))
    assert [s % ALIGNMENT for s in starts] == [remainder for _, remainder in sizes]


def test_every_draw_has_other_distances() -> None:
    buffers = usual_buffers(TASK, Case(dims={"tokens": 3, "d": 24}, dtype="float16"))
    rng = random.Random(5)
    drawn = [draw_addresses(buffers, (), rng).arguments for _ in range(200)]
    distances = {a["out"] - a["input"] for a in drawn}
    assert len(distances) == 200 and any(d < 0 for d in distances) and any(d > 0 for d in distances)
