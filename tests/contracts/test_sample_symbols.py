"""A sampler is judged by the frequencies of its draws: two honest ones pass, planted faults fail, a
bias of 2 % among them."""

from __future__ import annotations

import pytest

from astra_chat.tools.types import Device, Wrong
from tests.contracts.planted import contract, judged, planted

TASK = contract("sample_symbols")
DRAWN = "samples[place] = low;"
FAULTS = {
    "2 % of the draws are the first symbol": (
        DRAWN,
        "samples[place] = mixed(place + 77u) % 50 == 0 ? 0 : low;",
    ),
    "2 % of the draws are drawn evenly": (
        DRAWN,
        "samples[place] = mixed(place + 77u) % 50 == 0 && sums[(low + 1) % symbols] > "
        "(low + 1 < symbols ? sums[low] : 0.0f) ? (low + 1) % symbols : low;",
    ),
    "the same draw for each warp": (
        "static_cast<uint32_t>(place)) *",
        "static_cast<uint32_t>(place / 32)) *",
    ),
    "numbers of 6 bits": (">> 8) * 0x1p-24f", ">> 26) * 0x1p-6f"),
    "symbols of no weight": ("sums[middle] > wanted", "sums[middle] >= wanted - 0.5f"),
    "always the last symbol": (DRAWN, "samples[place] = symbols - 1;"),
    "the square of the number": (
        "const float wanted = uniform(seed, static_cast<uint32_t>(place)) *",
        "const float wanted = __powf(uniform(seed, static_cast<uint32_t>(place)), 1.05f) *",
    ),
    "a symbol beyond the last": (DRAWN, "samples[place] = low + 1;"),
}


@pytest.mark.second_tier
def test_honest_variants_pass_and_planted_faults_fail(device: Device) -> None:
    for name, wrong in judged(TASK, planted(TASK.baseline, FAULTS), device).items():
        if name in FAULTS:
            assert isinstance(wrong, Wrong) and wrong.reason == "distribution" and wrong.note
