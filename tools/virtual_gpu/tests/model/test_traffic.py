"""What is read again, and from where."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from astra_vgpu.ground.gpu_specs import MIB, spec
from astra_vgpu.model.traffic import Traffic, traffic
from astra_vgpu.types import SECTOR_BYTES, Counters, Dim3, Launch, LaunchReport

H200 = spec("h200")
STREAM = Counters(
    global_load_requests=1000,
    global_load_sectors=4000,
    global_load_lines=1000,
    global_load_bytes=128000,
    unique_load_sectors=4000,
    block_load_sectors=4000,
    load_buffer_sectors=10**6,
)
"""100 blocks that read 40 sectors each, once."""


def of(counters: Counters, blocks: int = 100, *, ran: int = 100, warm: bool = False) -> Traffic:
    launch = Launch("k", Dim3(blocks), Dim3(320), 0, b"")
    return traffic(LaunchReport(launch, ran, counters), H200, 4, 1024, math.inf if warm else 0.0)


def test_a_stream_comes_from_dram_once() -> None:
    found = of(STREAM)
    assert (found.loads, found.l1_misses, found.l2_misses) == (4000, 4000, 4000)
    assert found.new_from_dram == 1 and found.load_density == 1


def test_a_small_stream_is_found_in_l2_the_second_time_and_a_large_one_is_not() -> None:
    assert of(STREAM, warm=True).l2_misses == 0
    sectors = 400 * MIB // SECTOR_BYTES
    large = replace(
        STREAM,
        global_load_sectors=sectors,
        unique_load_sectors=sectors,
        block_load_sectors=sectors,
        load_buffer_sectors=sectors,
    )
    assert of(large, warm=True).l2_misses == sectors


def test_what_a_block_reads_again_comes_from_l1_while_it_fits() -> None:
    again = replace(STREAM, global_load_sectors=8000, global_load_bytes=256000)
    assert of(again).l1_misses == 4000
    own = 100 * 2**20 // SECTOR_BYTES
    much = replace(
        again,
        global_load_sectors=200 * own,
        global_load_bytes=200 * own * 32,
        block_load_sectors=100 * own,
        unique_load_sectors=100 * own,
        load_buffer_sectors=10**9,
        late_load_sectors=100 * own,
    )
    assert of(much).l1_misses == pytest.approx(200 * own, rel=0.01)
    assert of(replace(much, late_load_sectors=0)).l1_misses == pytest.approx(100 * own, rel=0.01)


def test_what_all_blocks_read_an_sm_fetches_once() -> None:
    table = replace(STREAM, block_load_sectors=4000, unique_load_sectors=40, common_load_sectors=40)
    found = of(table, 1000)
    assert found.l1_misses == pytest.approx(40 * H200.sms)
    assert found.new_misses == pytest.approx(H200.sms / 1000)
    assert of(replace(table, common_load_sectors=0), 1000).new_misses == 1


def test_what_is_drawn_at_random_from_more_than_l2_holds_comes_from_dram_again() -> None:
    place = 500 * MIB // SECTOR_BYTES
    drawn = replace(
        STREAM,
        global_load_sectors=3 * place,
        global_load_requests=3 * place,
        global_load_lines=3 * place,
        block_load_sectors=3 * place,
        block_load_lines=3 * place,
        unique_load_sectors=place,
        load_buffer_sectors=place,
    )
    assert of(drawn).l2_misses > 4 * place
    assert 0.9 < of(drawn).new_from_dram < 1


def test_blocks_that_ran_stand_for_the_others_but_share_what_they_shared() -> None:
    assert of(STREAM, 1000).l2_misses == pytest.approx(40000)
    table = replace(STREAM, unique_load_sectors=40)
    assert of(table, 1000).l2_misses == pytest.approx(40)


def test_sectors_that_are_not_filled_are_read_before_they_are_written() -> None:
    stores = Counters(
        global_store_requests=100,
        global_store_sectors=3200,
        global_store_lines=3200,
        global_store_bytes=3200 * 4,
        unique_store_sectors=3200,
        store_buffer_sectors=10**6,
    )
    assert of(stores).dram_stores == pytest.approx(3200 * (2 - 4 / 32))
    full = replace(stores, global_store_bytes=3200 * 32)
    assert of(full).dram_stores == 3200


def test_local_memory_lies_in_l1_while_all_threads_have_room_there() -> None:
    little = replace(
        STREAM,
        local_load_requests=100,
        local_load_sectors=400,
        local_store_requests=100,
        local_store_sectors=400,
        local_unique_sectors=400,
    )
    found = of(little)
    assert (found.l1_misses, found.stores, found.dram_stores) == (4000, 400, 0)
    own = 2**20 // SECTOR_BYTES
    much = of(replace(little, local_unique_sectors=100 * own))
    assert (much.l1_misses, much.stores) == (4400, 400)
    assert much.dram_stores == 400 and much.l2_misses == 4400
    assert of(replace(little, local_unique_sectors=40 * own)).dram_stores < 400
