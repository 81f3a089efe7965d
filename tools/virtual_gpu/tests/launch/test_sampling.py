"""Which blocks run of a large launch, and what the report then says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_vgpu.launch.sampling import (
    PROBE_BLOCKS,
    PROBE_LANES,
    choose_blocks,
    merged,
    run_sampled,
)
from astra_vgpu.types import Counters, Dim3, Launch, LaunchReport, Visits

INSTRUCTIONS_PER_BLOCK = 1000


def launch_of(blocks: int) -> Launch:
    return Launch("k", Dim3(blocks), Dim3(32), 0, b"")


class Engine:
    """Counts as an engine would, and remembers what it ran."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.ran: list[int] = []

    def __call__(self, blocks: Sequence[int] | None, counters: bool) -> LaunchReport:
        chosen = range(self.launch.grid.count) if blocks is None else blocks
        self.ran += chosen
        found = Counters(lane_instructions=INSTRUCTIONS_PER_BLOCK * len(chosen))
        return LaunchReport(self.launch, len(chosen), found)


@given(blocks=st.integers(2, 5000), wanted=st.integers(2, 400))
def test_a_sample_is_ordered_has_both_ends_and_the_stated_size(blocks: int, wanted: int) -> None:
    chosen = choose_blocks(blocks, wanted)
    assert chosen == sorted(set(chosen))
    assert (chosen[0], chosen[-1]) == (0, blocks - 1)
    assert len(chosen) == min(blocks, wanted)


@given(blocks=st.integers(100, 5000), wanted=st.integers(10, 90))
def test_a_sample_leaves_no_wide_gap(blocks: int, wanted: int) -> None:
    chosen = choose_blocks(blocks, wanted)
    widest = max(b - a for a, b in pairwise(chosen))
    assert widest <= 2 * blocks / (wanted - 2) + 2


def test_a_sample_is_not_regular() -> None:
    """Every 16th block, say, would miss a fault of the others in each group of 16."""
    chosen = choose_blocks(4096, 256)
    assert len({b % 16 for b in chosen}) == 16


@pytest.mark.parametrize("budget", [None, 10**9])
def test_what_fits_the_budget_runs_whole_and_once(budget: int | None) -> None:
    engine = Engine(launch_of(5000))
    report = run_sampled(engine.launch, engine, budget, True)
    assert sorted(engine.ran) == list(range(5000))
    assert report.blocks_run == 5000 and not report.sampled


@pytest.mark.parametrize("affordable", [1, 600, 2000])
def test_over_the_budget_the_affordable_blocks_run_once(affordable: int) -> None:
    engine = Engine(launch_of(10_000))
    report = run_sampled(engine.launch, engine, affordable * INSTRUCTIONS_PER_BLOCK, True)
    expected = max(affordable, PROBE_LANES // 32)
    assert len(engine.ran) == len(set(engine.ran)) == report.blocks_run == expected
    assert report.sampled and {0, 9_999} <= set(engine.ran)
    assert report.counters.lane_instructions == expected * INSTRUCTIONS_PER_BLOCK


def test_the_cost_is_known_without_counters_too() -> None:
    engine = Engine(launch_of(10_000))
    assert run_sampled(engine.launch, engine, 1000 * INSTRUCTIONS_PER_BLOCK, False).sampled


def test_a_launch_of_few_blocks_runs_whole_whatever_it_costs() -> None:
    engine = Engine(launch_of(PROBE_BLOCKS))
    assert not run_sampled(engine.launch, engine, 1, True).sampled


def test_counters_of_parts_add_up_and_the_longest_warp_stays_the_longest() -> None:
    launch = launch_of(9)
    a = Counters(
        Counter({"int": 3, "float": 1}), barriers=2, unique_load_sectors=5, dependent_load_rounds=4
    )
    b = Counters(Counter({"int": 4}), barriers=1, unique_load_sectors=6, dependent_load_rounds=3)
    total = merged(LaunchReport(launch, 1, a), LaunchReport(launch, 8, b))
    assert total.blocks_run == 9
    assert total.counters == Counters(
        Counter({"int": 7, "float": 1}), barriers=3, unique_load_sectors=11, dependent_load_rounds=4
    )


def test_what_the_chain_is_made_of_is_that_of_the_longest() -> None:
    parts = [
        Counters(
            critical_path_cycles=c,
            critical_path_before_load=c // 2,
            critical_path_units=Counter({unit: c}),
            critical_path_lines=Counter({f"kernel.cu:{c}": c}),
        )
        for c, unit in ((30, "alu"), (50, "xu"))
    ]
    for first, second in (parts, parts[::-1]):
        reports = [LaunchReport(launch_of(4), 2, one) for one in (first, second)]
        assert merged(*reports).counters.critical_path_units == {"xu": 50}
        assert merged(*reports).counters.critical_path_lines == {"kernel.cu:50": 50}
        assert merged(*reports).counters.critical_path_before_load == 25


def test_what_all_blocks_read_shows_in_the_first_ones() -> None:
    """Each block reads 5 sectors of its own and 7 that all do."""
    launch = launch_of(4000)

    def run(blocks: Sequence[int] | None, counters: bool) -> LaunchReport:
        ran = 4000 if blocks is None else len(blocks)
        found = Counters(
            lane_instructions=1000 * ran,
            block_load_sectors=12 * ran,
            unique_load_sectors=5 * ran + 7,
            global_load_sectors=12 * ran,
        )
        return LaunchReport(launch, ran, found)

    for budget in (None, 100, 1000 * 2000):
        report = run_sampled(launch, run, budget, True)
        assert report.counters.common_load_sectors == 7


def test_visits_add_up_and_the_longest_warp_is_the_first_of_those() -> None:
    launch = launch_of(9)

    def of(instructions: int, block: int) -> LaunchReport:
        visits = Visits(
            total=(10, block), longest=(1, block), instructions=instructions, block=block
        )
        return LaunchReport(launch, 1, Counters(), visits=visits)

    for one, other, longest in [((5, 1), (7, 2), 2), ((7, 4), (7, 3), 3), ((7, 3), (7, 4), 3)]:
        found = merged(of(*one), of(*other)).visits
        assert found is not None
        assert found.total == (20, one[1] + other[1])
        assert (found.block, found.longest, found.instructions) == (longest, (1, longest), 7)
    uncounted = LaunchReport(launch, 1, Counters())
    assert merged(of(5, 1), uncounted).visits == of(5, 1).visits
