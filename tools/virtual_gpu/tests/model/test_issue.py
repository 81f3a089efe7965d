"""The busiest unit of an SM, from machine code and from guesses."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.model.issue import (
    SLOTS,
    issue_cycles,
    machine_instructions,
    machine_path,
)
from astra_vgpu.types import WARP_LANES, Counters

GPU = spec("h200")
GUESSED = Counters(warp_instructions=Counter({"float": 40, "half": 8}), issue_tenths=1000)
KNOWN = replace(GUESSED, machine_instructions=Counter({"fma": 50, "imad": 30, "alu": 20}))


def test_known_machine_instructions_are_taken_as_they_are() -> None:
    assert machine_instructions(KNOWN) == 100
    assert machine_instructions(GUESSED) == pytest.approx(100 * SLOTS)


def test_the_longest_warp_has_its_share_of_the_machine_instructions() -> None:
    assert machine_path(replace(KNOWN, critical_path_instructions=12)) == 100 * 12 / 48
    assert machine_path(Counters()) == 0.0


def test_the_busiest_unit_decides() -> None:
    assert issue_cycles(GUESSED, GPU) == pytest.approx(100 * SLOTS / GPU.schedulers_per_sm)
    assert issue_cycles(KNOWN, GPU) == 100 / GPU.schedulers_per_sm
    floats = replace(KNOWN, machine_instructions=Counter({"imad": 100, "fma": 900}))
    assert issue_cycles(floats, GPU) == 1000 * WARP_LANES / GPU.fp32_lanes
    products = replace(KNOWN, machine_instructions=Counter({"imad": 400, "imad_wide": 300}))
    assert issue_cycles(products, GPU) == (2 * 400 + 4 * 300) * WARP_LANES / GPU.fp32_lanes
    halves = replace(KNOWN, machine_instructions=Counter({"half": 1000}))
    assert issue_cycles(halves, GPU) == 1000 * WARP_LANES / GPU.half_lanes
    logic = replace(KNOWN, alu_tenths=10_000)
    assert issue_cycles(logic, GPU) == 1000 * WARP_LANES / GPU.int_lanes
