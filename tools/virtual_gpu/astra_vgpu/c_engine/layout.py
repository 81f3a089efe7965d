"""The structures of simt.h for ctypes."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_uint8, c_uint32, c_uint64, c_void_p

from astra_vgpu.types import PRINT_BYTES

TAKE = ctypes.CFUNCTYPE(c_uint64, c_uint64)
GIVE = ctypes.CFUNCTYPE(ctypes.c_int, c_uint64)


class Buffer(ctypes.Structure):
    _fields_ = [
        ("address", c_uint64),
        ("end", c_uint64),
        *(
            (name, c_void_p)
            for name in (
                "written",
                "loaded",
                "stored",
                "writers",
                "readers",
                "writer_threads",
                "reader_threads",
                "writer_times",
                "reader_times",
                "adders",
                "adder_times",
                "adder_threads",
                "posted",
                "flags",
                "late_readers",
                "late_reader_times",
                "late_reader_threads",
            )
        ),
        ("cell_bits", c_uint64),
        *(
            (name, c_void_p)
            for name in (
                "stamp_writers",
                "stamp_readers",
                "stamp_adders",
                "stamp_writer_times",
                "stamp_reader_times",
                "stamp_adder_times",
            )
        ),
        ("stamp_bits", c_uint64),
        ("early", c_uint64),
        ("allocated", c_void_p),
        ("starts_uninitialized", c_uint64),
        ("unfinished", c_void_p),
    ]


class Print(ctypes.Structure):
    _fields_ = [
        ("block", c_int64),
        ("format", c_uint64),
        ("bytes", c_uint64),
        ("arguments", c_uint8 * PRINT_BYTES),
    ]

    block: int
    format: int
    bytes: int
    arguments: ctypes.Array[c_uint8]


class UninitializedReads(ctypes.Structure):
    _fields_ = [
        ("block", c_int64),
        ("address", c_uint64),
        *((name, c_uint32) for name in ("thread", "instruction", "size", "space")),
    ]

    block: int
    address: int
    thread: int
    instruction: int
    size: int
    space: int


class FaultRecord(ctypes.Structure):
    _fields_ = [
        ("kind", c_uint32),
        ("instruction", c_uint32),
        ("warp", c_uint32),
        ("lane", c_uint32),
        ("block", c_int64),
        ("address", c_uint64),
        ("detail", c_uint64 * 5),
        ("space", c_uint32),
        ("other", c_uint32),
    ]

    kind: int
    instruction: int
    warp: int
    lane: int
    block: int
    address: int
    detail: ctypes.Array[c_uint64]
    space: int
    other: int


_COUNTERS = (
    "lane_instructions load_requests load_sectors load_wavefronts load_bytes store_requests "
    "store_sectors store_bytes shared_requests shared_wavefronts barriers divergent_branches "
    "block_sectors late_sectors atomic_lanes load_lines store_lines atomic_turns "
    "local_load_requests local_load_sectors local_store_requests local_store_sectors "
    "local_unique_sectors store_packets store_packet_thirds block_lines "
    "match_turns constant_requests constant_words "
    "longest_instructions longest_cycles longest_loads longest_rounds fresh_rounds "
    "longest_matches longest_constants mbarrier_rounds copy_cycles longest_sleep_ns "
    "hottest_turns float_turns"
).split()


class Counters(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in _COUNTERS]

    lane_instructions: int
    load_requests: int
    load_sectors: int
    load_wavefronts: int
    load_bytes: int
    store_requests: int
    store_sectors: int
    store_bytes: int
    shared_requests: int
    shared_wavefronts: int
    barriers: int
    divergent_branches: int
    block_sectors: int
    late_sectors: int
    atomic_lanes: int
    load_lines: int
    store_lines: int
    local_load_requests: int
    local_load_sectors: int
    local_store_requests: int
    local_store_sectors: int
    local_unique_sectors: int
    store_packets: int
    store_packet_thirds: int
    block_lines: int
    match_turns: int
    constant_requests: int
    constant_words: int
    longest_instructions: int
    longest_cycles: int
    longest_loads: int
    longest_rounds: int
    fresh_rounds: int
    longest_matches: int
    longest_constants: int
    mbarrier_rounds: int
    copy_cycles: int
    longest_sleep_ns: int
    atomic_turns: int
    hottest_turns: int
    float_turns: int


class Longest(ctypes.Structure):
    _fields_ = [("instructions", c_uint64), ("block", c_int64)]

    instructions: int
    block: int


class Launch(ctypes.Structure):
    _fields_ = [
        ("blocks", c_void_p),
        ("block_count", c_uint64),
        ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3),
        ("buffers", c_void_p),
        ("buffer_count", c_uint64),
        ("params", c_void_p),
        ("symbols", c_void_p),
        ("budget", c_uint64),
        *(
            (name, c_uint32)
            for name in (
                "param_bytes",
                "shared_limit",
                "local_bytes",
                "dynamic_shared",
                "race_granule",
                "workers",
            )
        ),
        ("printed", c_void_p),
        ("printed_bytes", c_void_p),
        ("uninitialized", c_void_p),
        *(
            (name, c_void_p)
            for name in (
                "times",
                "places",
                "clock",
                "pending",
                "looks",
                "site_numbers",
            )
        ),
        ("watched", c_uint64),
        ("stamped", c_uint64),
        ("stamp_numbers", c_void_p),
        ("programmatic", c_uint64),
        *((name, c_uint32) for name in ("site_bits", "precise", "again", "order_rows")),
        *((name, c_void_p) for name in ("visits", "longest", "longest_warp", "counters", "fault")),
        ("take", TAKE),
        ("give", GIVE),
        ("has_heap", c_uint64),
        ("meeting_place", c_uint64),
        ("reserved_at", c_uint32),
        ("left_there", c_uint32),
    ]
