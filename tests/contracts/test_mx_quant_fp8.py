"""Quantisation to MXFP8: scales that are powers of two, as a dtype. Honest variants pass, planted
faults fail."""

from __future__ import annotations

import pytest

from astra_chat.tools.types import Device
from tests.contracts.planted import contract, judged, planted

pytestmark = pytest.mark.second_tier
TASK = contract("mx_quant_fp8")
CODED = "__nv_fp8_e4m3(to_float(source[i]) * inverse)"
FAULTS = {
    "the scale rounded down": ("> 0x600000u ? 1 : 0", "> 0x7fffffu ? 1 : 0"),
    "the scale rounded to the nearest": ("> 0x600000u", "> 0x280000u"),
    "448 itself does not fit": ("0x7fffffu) > 0x600000u", "0x7fffffu) >= 0x600000u"),
    "the largest code is 256": ("> 0x600000u ? 1 : 0", "> 0u ? 1 : 0"),
    "a scale of one for zeros": ("max(0, int(bits", "bits == 0 ? 127 : max(0, int(bits"),
    "the least scale is 2^-126": ("return max(0,", "return max(1,"),
    "the scale after this one": (
        "scales[group] = uint8_t(code);",
        "scales[group] = uint8_t(code + 1);",
    ),
    "half of a group": ("i < kGroup; ++i) largest", "i < kGroup / 2; ++i) largest"),
    "the maximum without the sign": ("fabsf(to_float(source[i]))", "to_float(source[i])"),
    "rows lie one after the other": (
        "group / per_token * stride",
        "group / per_token * per_token * kGroup",
    ),
    "the last group left out": ("if (group >= groups)", "if (group >= groups - 1)"),
    "rounded towards zero": (CODED, CODED.replace("* inverse", "* inverse * 0.97f")),
    "the other fp8": (
        CODED,
        "[](float v) { __nv_fp8_e4m3 r; r.__x = __nv_fp8_e5m2(v).__x;"
        " return r; }(to_float(source[i]) * inverse)",
    ),
}


def test_honest_variants_pass_and_planted_faults_fail(device: Device) -> None:
    judged(TASK, planted(TASK.baseline, FAULTS), device)
